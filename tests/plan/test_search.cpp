#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/plan/search/search.h>
#include <lockstep/plan/search/space.h>

#include "example_graphs.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string_view>

namespace lockstep {
namespace {

using plan::Cluster;
using plan::Plan;

/// GPUs of ten years ago, eight in a node.
Cluster gpus(int nodes) {
  return {.name = "gpus",
          .nodes = nodes,
          .devices_per_node = 8,
          .device = {.matmul = {6e13},
                     .convolution = {4e13},
                     .memory_bandwidth = {9e11},
                     .memory = {3.2e10},
                     .operator_overhead = {4e-6}},
          .intra_node = {.bandwidth = {1.2e11}, .latency = {5e-6}},
          .inter_node = {.bandwidth = {1.2e10}, .latency = {2e-5}},
          .overlap = 0.9};
}

/// Two machines joined by a slow link.
Cluster slow_link() {
  return {.name = "1 Gbit/s",
          .nodes = 2,
          .devices_per_node = 1,
          .device = {},
          .intra_node = {},
          .inter_node = {.bandwidth = {1.2e8}, .latency = {1e-4}},
          .overlap = 0.7};
}

const plan::Alternative& alternative(const Plan& plan, std::string_view name) {
  for (const auto& each : plan.alternatives) {
    if (each.name == name) return each;
  }
  throw std::logic_error("no alternative " + std::string(name));
}

Placements lies(const Plan& plan, const std::string& parameter) {
  const auto* found = find_placements(plan.parameters, parameter);
  return found != nullptr ? *found : Placements(plan.mesh_sizes.size());
}

TEST(Search, IsNeverWorseThanTheAlternatives) {
  for (const auto& mesh : {std::vector<int>{8}, std::vector<int>{2, 4}}) {
    const auto plan = plan::search(test::mlp_step(64, {512, 2048, 2048, 10}), gpus(1), {.mesh = mesh});
    for (const auto& each : plan.alternatives) {
      if (!each.fits) continue;
      EXPECT_LE(plan.prediction.cost.value, each.cost.value * (1 + 1e-6)) << each.name;
    }
    EXPECT_LE(plan.lower_bound.value, plan.prediction.cost.value);
  }
}

TEST(Search, KeepsDataParallelWhereTheBestHardlySaves) {
  const auto graph = test::mlp_step(64, {512, 2048, 2048, 10});
  const auto best = plan::search(graph, gpus(1), {.mesh = std::vector<int>{8}});
  const auto& plain = alternative(best, "data_parallel");
  const double saved = 1 - best.prediction.cost / plain.cost;
  ASSERT_GT(saved, 0);
  const auto with = [&](double worthwhile) {
    return plan::search(graph, gpus(1), {.mesh = std::vector<int>{8}, .worthwhile = worthwhile});
  };
  EXPECT_EQ(plan_hash(with(saved * 0.9)), plan_hash(best));
  const auto kept = with(saved * 1.1);
  EXPECT_EQ(kept.prediction.cost, plain.cost);
  EXPECT_TRUE(lies(kept, "layer0.weight")[0].is_replicate());
  EXPECT_EQ(alternative(kept, "auto").cost, best.prediction.cost) << "the best is shown all the same";
}

TEST(Search, DoesNotKeepDataParallelWhereItDoesNotFit) {
  const test::GptSizes block{.batch = 8, .length = 512, .width = 4096, .heads = 32, .layers = 1, .vocabulary = 4096};
  auto cluster = gpus(1);
  cluster.device.memory = {2.2e9};
  const auto plan = plan::search(test::gpt_step(block), cluster, {.mesh = std::vector<int>{8}, .worthwhile = 1});
  EXPECT_LE(plan.prediction.memory.total().value, 2.2e9);
}

TEST(Search, FindsAtLeastMegatronForABlockThatDataParallelCannotHold) {
  const test::GptSizes block{.batch = 8, .length = 512, .width = 4096, .heads = 32, .layers = 1, .vocabulary = 4096};
  auto cluster = gpus(1);
  cluster.device.memory = {2.2e9};
  const auto plan = plan::search(test::gpt_step(block), cluster, {.mesh = std::vector<int>{8}});
  const auto& megatron = alternative(plan, "megatron");
  EXPECT_FALSE(alternative(plan, "data_parallel").fits);
  EXPECT_TRUE(megatron.fits);
  EXPECT_LE(plan.prediction.cost.value, megatron.cost.value * (1 + 1e-6));
}

TEST(Search, MegatronsPatternIsFoundByFollowingActivations) {
  const auto program = plan::compile(test::gpt_step({.layers = 2}));
  const auto along = plan::megatron_axis(program, 4);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const auto& name = program.values[program.parameters[i]].name;
    Placement wanted = Replicate();
    for (const std::string rows : {"query.", "key.", "value.", "fc1.", "head.", "token."}) {
      if (name.find(rows) != std::string::npos) wanted = Shard(0);
    }
    if (name.ends_with("output.weight") || name.ends_with("fc2.weight")) wanted = Shard(1);
    EXPECT_EQ(along[i], wanted) << name;
  }
}

TEST(Search, FindsMegatronsPlanWhereTheBatchIsOne) {
  // One long sentence: there is no batch to divide, so layers are.
  const auto plan =
      plan::search(test::block_step({.batch = 1, .length = 1024, .width = 4096, .heads = 32, .layers = 1}), gpus(1),
                   {.mesh = std::vector<int>{8}});
  EXPECT_LE(plan.prediction.cost.value, alternative(plan, "megatron").cost.value * (1 + 1e-6));
  EXPECT_LT(plan.prediction.cost.value, 0.7 * alternative(plan, "data_parallel").cost.value);
  EXPECT_EQ(lies(plan, "blocks.0.fc1.weight"), Placements{Shard(0)});
  EXPECT_EQ(lies(plan, "blocks.0.fc2.weight"), Placements{Shard(1)});
  EXPECT_EQ(lies(plan, "blocks.0.attention.query.weight"), Placements{Shard(0)});
  EXPECT_EQ(lies(plan, "blocks.0.attention.output.weight"), Placements{Shard(1)});
}

TEST(Search, ConvolutionsStayDataParallelAndWideLayersAreSplit) {
  const auto plan = plan::search(test::vgg_step(64, 32, {32, 64, 64}, {4096, 4096, 10}), slow_link());
  EXPECT_EQ(plan.mesh_names, std::vector<std::string>{"data"});
  for (const std::string conv : {"conv1", "conv2", "conv3"})
    EXPECT_EQ(lies(plan, conv + ".weight"), Placements{Replicate()}) << conv;
  EXPECT_TRUE(lies(plan, "fc1.weight")[0].is_shard());
  EXPECT_TRUE(lies(plan, "fc2.weight")[0].is_shard());
  EXPECT_LT(plan.prediction.cost.value, 0.5 * alternative(plan, "data_parallel").cost.value);
}

TEST(Search, MemoryIsALimit) {
  const auto graph = test::mlp_step(16, {4096, 4096, 4096, 4096});
  auto cluster = gpus(1);
  cluster.device.memory = {2.5e8};  // parameters, gradients and momentum are 600 MB
  const auto plan = plan::search(graph, cluster);
  EXPECT_LE(plan.prediction.memory.total().value, 2.5e8);
  EXPECT_FALSE(alternative(plan, "data_parallel").fits);
  cluster.device.memory = {3e7};
  try {
    plan::search(graph, cluster);
    FAIL() << "an eighth of 600 MB does not fit 30 MB";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("devices of this kind would suffice"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("0.0"), std::string::npos)
        << error.what();  // small amounts have their unit
  }
}

/// The number of devices that the refusal names; 0 where it fits.
int devices_named(const plan::Graph& graph, const plan::Cluster& cluster) {
  try {
    plan::search(graph, cluster);
    return 0;
  } catch (const Error& error) {
    const std::string text = error.what();
    const auto end = text.find(" devices of this kind would suffice");
    if (end == std::string::npos) return -1;
    const auto begin = text.rfind(' ', end - 1);
    return static_cast<int>(parse_integer(text.substr(begin + 1, end - begin - 1)).value_or(-1));
  }
}

TEST(Search, TheDevicesThatARefusalNamesAreEnoughAndHalfOfThemAreNot) {
  const std::vector<std::pair<plan::Graph, double>> cases{{test::mlp_step(16, {1024, 10, 2048}), 3e4},
                                                          {test::mlp_step(16, {1000, 30, 2000}), 1e5},
                                                          {test::mlp_step(16, {4096, 4096, 4096, 4096}), 3e7},
                                                          {test::mlp_step(64, {100, 3000, 100}), 3e5},
                                                          {test::vgg_step(8, 32, {32, 64}, {1000, 10}), 2e6}};
  for (const auto& [graph, memory] : cases) {
    auto cluster = gpus(1);
    cluster.device.memory = {memory};
    const int enough = devices_named(graph, cluster);
    ASSERT_GT(enough, cluster.devices()) << memory;
    cluster.nodes = enough / cluster.devices_per_node;
    EXPECT_EQ(devices_named(graph, cluster), 0) << enough << " devices, " << memory;
    if (cluster.nodes > 1) {
      cluster.nodes /= 2;
      EXPECT_NE(devices_named(graph, cluster), 0) << enough / 2 << " devices, " << memory;
    }
  }
}

/// Layouts that a user could write, of which none may be faster than a plan that is called optimal.
void expect_optimal(const plan::Graph& graph, const Cluster& cluster, const std::string& what) {
  const auto plan = plan::search(graph, cluster, {.mesh = std::vector<int>{cluster.devices()}});
  if (!plan.optimal) return;
  for (const auto& inputs : {Replicate(), Shard(0)}) {
    for (const auto& weights : {Replicate(), Shard(0), Shard(1)}) {
      for (const auto& biases : {Replicate(), Shard(0)}) {
        const auto other =
            plan::predict(graph, cluster, {cluster.devices()}, {inputs}, {{"*.weight", {weights}}, {"*", {biases}}});
        EXPECT_GE(other.cost.value, plan.prediction.cost.value * (1 - 1e-9))
            << what << ": inputs " << to_string(inputs) << ", weights " << to_string(weights) << ", biases "
            << to_string(biases);
      }
    }
  }
}

TEST(Search, AnOptimalPlanIsNotBeatenWhereSizesDoNotDivide) {
  Cluster cluster{.nodes = 1, .devices_per_node = 4};
  cluster.device = {.matmul = {1e10}, .memory_bandwidth = {1e10}, .operator_overhead = {5e-6}};
  cluster.intra_node = {.bandwidth = {1e10}, .latency = {1e-7}};
  cluster.overlap = 1;
  for (const std::int64_t narrow : {5, 6, 7, 9, 10, 30, 31}) {
    for (const std::int64_t batch : {3, 16, 50}) {
      expect_optimal(test::mlp_step(batch, {1024, narrow, 2048}), cluster,
                     "1024-" + std::to_string(narrow) + "-2048, batch " + std::to_string(batch));
    }
  }
}

// Where bounds do not meet, 5184 layouts are so few that each is tried.
TEST(Search, FindsTheBestOfFewLayouts) {
  Cluster cluster{.nodes = 1, .devices_per_node = 4};
  cluster.device = {.matmul = {1.46e9}, .memory_bandwidth = {7.2e9}, .operator_overhead = {1.44e-6}};
  cluster.intra_node = {.bandwidth = {8e9}, .latency = {2.9e-6}};
  cluster.overlap = 1;
  const auto plan = plan::search(test::mlp_step(8, {10, 10, 251}), cluster, {.mesh = std::vector<int>{2, 2}});
  EXPECT_TRUE(plan.optimal);
  EXPECT_NEAR(plan.lower_bound.value, plan.prediction.cost.value, 1e-12);
}

TEST(Search, ZeroThreeOfAGptGathersItsWeightsAndSavesMemory) {
  const test::GptSizes sizes{.batch = 8, .length = 1024, .width = 2048, .heads = 16, .layers = 24, .vocabulary = 50257};
  auto cluster = gpus(1);
  cluster.device.memory = {8e10};
  const auto plan = plan::search(test::gpt_step(sizes), cluster, {.mesh = std::vector<int>{8}, .choose = "zero3"});
  EXPECT_LT(plan.prediction.memory.total().value, 0.5 * alternative(plan, "data_parallel").memory.value);
  const auto& traffic = plan.prediction.traffic;
  EXPECT_LT(traffic.bytes[static_cast<std::size_t>(plan::Collective::all_reduce)].value, 1e6);
  EXPECT_GT(traffic.bytes[static_cast<std::size_t>(plan::Collective::all_gather)].value, 5e9);
}

TEST(Search, WhatTheUserPlacedStays) {
  const auto graph = test::mlp_step(64, {512, 2048, 2048, 10});
  const plan::SearchOptions options{
      .mesh = std::vector<int>{2, 4},
      .constraints = {.parameters = {{"fc2.weight", {Replicate(), Shard(1)}}}, .inputs = {}}};
  const auto plan = plan::search(graph, gpus(1), options);
  EXPECT_EQ(lies(plan, "fc2.weight"), (Placements{Replicate(), Shard(1)}));
}

TEST(Search, MeshesThatAreNotTheClusterAreRefused) {
  EXPECT_THROW(plan::search(test::mlp_step(8, {8, 8}), gpus(1), {.mesh = std::vector<int>{2, 2}}), Error);
  EXPECT_THROW(plan::search(test::mlp_step(8, {8, 8}), gpus(1), {.mesh = std::vector<int>{8}, .compare = {"pipeline"}}),
               Error);
}

TEST(Search, TheSameQuestionHasTheSameAnswer) {
  const auto graph = test::gpt_step({.layers = 5});
  const auto once = plan::search(graph, gpus(1));
  const auto again = plan::search(graph, gpus(1));
  EXPECT_EQ(plan::plan_hash(once), plan::plan_hash(again));
  EXPECT_EQ(once.prediction.cost.value, again.prediction.cost.value);
}

TEST(Search, NinetySixLayersOnAThousandDevices) {
  const test::GptSizes sizes{
      .batch = 64, .length = 1024, .width = 4096, .heads = 32, .layers = 96, .vocabulary = 50304};
  const auto graph = test::gpt_step(sizes);
  const auto plan = plan::search(graph, gpus(128), {.mesh = std::vector<int>{8, 8, 16}});
  std::cout << graph.nodes.size() << " operators planned on 8x8x16 in " << plan.search_time.value << " s; a step takes "
            << plan.prediction.cost.value << " s and " << plan.prediction.memory.total().value / 1e9
            << " GB; data parallel " << alternative(plan, "data_parallel").memory.value / 1e9 << " GB\n";
  EXPECT_LE(plan.prediction.memory.total().value, 3.2e10);
  EXPECT_FALSE(alternative(plan, "data_parallel").fits);
  EXPECT_EQ(lies(plan, "blocks.7.fc1.weight"), lies(plan, "blocks.80.fc1.weight"))
      << "repeated layers are decided once";
}

}  // namespace
}  // namespace lockstep
