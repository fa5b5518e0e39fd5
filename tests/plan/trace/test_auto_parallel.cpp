// A program for one device, made one for two by a call, computes the same.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/models/gpt.h>
#include <lockstep/plan/auto_parallel.h>
#include <lockstep/plan/measure/measure.h>
#include <lockstep/plan/run/measured_layouts.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <thread>

namespace lockstep {
namespace {

using test::Rank;
using test::RankOptions;

const RankOptions kOptions{.deadline = std::chrono::seconds(300), .group = RankOptions::test_group_options("shm")};

std::shared_ptr<models::Gpt> small_gpt() {
  torch::manual_seed(11);
  auto model = models::gpt({.vocabulary = 19, .context = 8, .layers = 2, .heads = 4, .width = 16});
  model->to(torch::kDouble);
  return model;
}

struct Batch {
  at::Tensor tokens;
  at::Tensor next;
};

Batch batch() {
  torch::manual_seed(7);
  return {torch::randint(19, {6, 8}, torch::kLong), torch::randint(19, {6, 8}, torch::kLong)};
}

at::Tensor loss_of(models::Gpt& model, const at::Tensor& tokens, const at::Tensor& next) {
  return torch::cross_entropy_loss(model.forward(tokens).transpose(1, 2), next);
}

std::vector<double> losses(models::Gpt& model, const at::Tensor& tokens, const at::Tensor& next) {
  torch::optim::Adam adam(model.parameters(), 1e-2);
  std::vector<double> values;
  for (int step = 0; step < 4; ++step) {
    adam.zero_grad();
    const auto loss = loss_of(model, tokens, next);
    loss.backward();
    adam.step();
    values.push_back(loss.item<double>());
  }
  return values;
}

AutoParallel planned(models::Gpt& model, const Group& group, const AutoParallelOptions& options) {
  const auto [tokens, next] = batch();
  return auto_parallel(
      model, group, {tokens, next}, [&](const auto& in) { return loss_of(model, in[0], in[1]); }, options);
}

void expect_losses_of_one_device(const Group& group, AutoParallelOptions options) {
  options.optimizer = [](std::vector<at::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<torch::optim::Adam>(parameters);
  };
  const auto [tokens, next] = batch();
  const auto alone = losses(*small_gpt(), tokens, next);
  const auto model = small_gpt();
  const auto parallel = planned(*model, group, options);
  EXPECT_TRUE(is_global(model->parameters().front()));
  EXPECT_NE(parallel.explanation, "");
  const auto got = losses(*model, distribute(tokens, parallel.mesh, parallel.batch, Source::same_everywhere),
                          distribute(next, parallel.mesh, parallel.batch, Source::same_everywhere));
  ASSERT_EQ(got.size(), alone.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], alone[i], 1e-7) << i;
  EXPECT_NE(alone.front(), alone.back());
}

TEST(AutoParallel, AGptTrainsAsOnOneDevice) {
  test::run_ranks(2, kOptions, [](Rank& rank) { expect_losses_of_one_device(rank.group(), {}); });
}

/// A plan that divides the model, measured beside data parallel.
AutoParallelOptions verified_options() {
  AutoParallelOptions options;
  options.mesh = {2};
  options.parameters = {{"blocks.*.fc1.*", {Shard(0)}}, {"blocks.*.fc2.weight", {Shard(1)}}};
  options.verify_steps = 2;
  return options;
}

TEST(AutoParallel, AVerifiedPlanTrainsAsOnOneDevice) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const auto options = verified_options();
    expect_losses_of_one_device(rank.group(), options);
    const auto model = small_gpt();
    const auto parallel = planned(*model, rank.group(), options);
    ASSERT_EQ(parallel.remarks.size(), 1U);
    const bool plan_won = parallel.remarks[0].ends_with("going on with the plan");
    EXPECT_TRUE(plan_won || parallel.remarks[0].ends_with("going on with data parallel")) << parallel.remarks[0];
    const Placements fc1{plan_won ? Shard(0) : Replicate()};
    EXPECT_EQ(placements_of(model->named_parameters()["blocks.1.fc1.weight"]), fc1);
    EXPECT_TRUE(plan_won || parallel.batch == Placements{Shard(0)});
  });
}

// Whatever layouts a module had in between, it has the same numbers, and its gradients are summed up once.
TEST(AutoParallel, LayoutsFollowEachOther) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const auto [tokens, next] = batch();
    const auto alone = losses(*small_gpt(), tokens, next);
    const auto model = small_gpt();
    const plan::KeptNumbers kept(*model);
    const plan::Layout wide{.mesh = Mesh(rank.group()), .batch = {Replicate()}, .parameters = {{"*fc1.*", {Shard(0)}}}};
    const auto plain = plan::data_parallel_layout(rank.group());
    distribute_module(*model, wide.mesh, wide.parameters);
    for (const auto* layout : {&plain, &wide, &plain}) {
      kept.lay_out(*layout);
      const auto got = losses(*model, distribute(tokens, layout->mesh, layout->batch, Source::same_everywhere),
                              distribute(next, layout->mesh, layout->batch, Source::same_everywhere));
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], alone.at(i), 1e-7) << i;
    }
  });
}

struct Tied : torch::nn::Module {
  Tied() { other = register_parameter("other", weight = register_parameter("weight", torch::rand({4, 4}))); }
  at::Tensor weight;
  at::Tensor other;
};

TEST(AutoParallel, ATensorOfTwoNamesLiesAsTheFirst) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    Tied tied;
    const plan::KeptNumbers kept(tied);
    const plan::Layout rows{.mesh = Mesh(rank.group()), .batch = {Shard(0)}, .parameters = {{"weight", {Shard(0)}}}};
    distribute_module(tied, rows.mesh, rows.parameters);
    kept.lay_out(rows);
    EXPECT_EQ(placements_of(tied.other), Placements{Shard(0)});
  });
}

// What a step makes before it has met a global tensor lies on the mesh of what is measured, and then of what was
// faster.
TEST(AutoParallel, AVerifiedStepMayBeginWithAFactory) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const auto options = verified_options();
    const auto [tokens, next] = batch();
    for (const Placement slow : {Replicate(), Shard(0)}) {
      const auto model = small_gpt();
      const auto fc1 = model->named_parameters()["blocks.1.fc1.weight"];
      const auto loss = [&](const std::vector<at::Tensor>& in) {
        const auto zeros = torch::zeros({6, 8}, in[0].options());
        if (placements_of(fc1) == Placements{slow}) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return loss_of(*model, zeros + in[0], in[1]);
      };
      const auto parallel = auto_parallel(*model, rank.group(), {tokens, next}, loss, options);
      EXPECT_NE(placements_of(fc1), Placements{slow});
      const auto got = loss({distribute(tokens, parallel.mesh, parallel.batch, Source::same_everywhere),
                             distribute(next, parallel.mesh, parallel.batch, Source::same_everywhere)});
      EXPECT_NEAR(got.item<double>(), loss_of(*small_gpt(), tokens, next).item<double>(), 1e-7);
    }
  });
}

TEST(AutoParallel, AnInputWithoutABatchIsMeasuredWhole) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const auto model = small_gpt();
    const auto layout = plan::data_parallel_layout(rank.group());
    distribute_module(*model, layout.mesh, layout.parameters);
    const auto [tokens, next] = batch();
    const auto loss = [&](const std::vector<at::Tensor>& in) { return loss_of(*model, in[0], in[1]) * in[2]; };
    const auto weight = torch::full({}, 2.0, torch::kDouble);
    EXPECT_GT(plan::measured_step({.module = model.get(), .batch = {tokens, next, weight}, .loss = loss}, layout, 1),
              0);
  });
}

/// Makes measurements that take so many seconds, turn by turn, and note in `turns` whose it was, and of how many steps.
auto in_turns(std::string& turns) {
  return [&turns](char name, std::vector<double> seconds) {
    return [&turns, name, seconds, turn = 0U](int steps) mutable {
      turns += name + std::to_string(steps) + " ";
      return seconds.at(turn++);
    };
  };
}

TEST(AutoParallel, PlanAndDataParallelTakeTurnsAndTheBetterCounts) {
  std::string turns;
  std::vector<std::string> remarks;
  const auto measured = in_turns(turns);
  EXPECT_TRUE(plan::beats_data_parallel(5, 1, measured('p', {9, 0.2}), measured('d', {0.3, 0.4}), remarks));
  EXPECT_EQ(turns, "p3 d3 p3 d3 ");
  EXPECT_FALSE(plan::beats_data_parallel(1, 1, measured('p', {0.2, 9}), measured('d', {5, 0.1}), remarks));
  EXPECT_FALSE(plan::beats_data_parallel(5, 0.97, measured('p', {0.2, 0.2}), measured('d', {0.2, 0.204}), remarks));
  EXPECT_EQ(
      remarks,
      (std::vector<std::string>{
          "measured over 5 steps: the plan 200.00 ms a step, data parallel 300.00 ms; going on with the plan",
          "measured over 1 steps: the plan 200.00 ms a step, data parallel 100.00 ms; going on with data parallel",
          "measured over 5 steps: the plan 200.00 ms a step, data parallel 200.00 ms; going on with data parallel"}));
}

TEST(AutoParallel, ShortStepsAreMeasuredForLongerTurns) {
  std::string turns;
  std::vector<std::string> remarks;
  const auto measured = in_turns(turns);
  EXPECT_TRUE(plan::beats_data_parallel(5, 0.97, measured('p', {0.002, 0.003, 0.004}),
                                        measured('d', {0.005, 0.004, 0.004}), remarks));
  EXPECT_EQ(turns, "p3 d3 p50 d50 p50 d50 ");
  EXPECT_EQ(remarks,
            (std::vector<std::string>{
                "measured over 100 steps: the plan 3.00 ms a step, data parallel 4.00 ms; going on with the plan"}));
}

// Two layers of 1 MiB: data parallel holds 4 MiB of them and their gradients, divided they are half of that.
TEST(AutoParallel, DataParallelIsNotMeasuredWhereItDoesNotFit) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    torch::nn::Sequential model(torch::nn::Linear(512, 512), torch::nn::ReLU(), torch::nn::Linear(512, 512));
    AutoParallelOptions options;
    options.memory_bytes = 3 << 20;
    options.verify_steps = 1;
    const auto parallel = auto_parallel(
        *model, rank.group(), {torch::ones({4, 512})}, [&](const auto& in) { return model->forward(in[0]).sum(); },
        options);
    ASSERT_EQ(parallel.remarks.size(), 1U) << parallel.explanation;
    EXPECT_EQ(parallel.remarks[0], "not measured beside data parallel, which does not fit into memory");
    EXPECT_FALSE(parallel.parameters.empty()) << parallel.explanation;
  });
}

TEST(AutoParallel, MeasuringDrawsNoRandomNumbers) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const auto model = small_gpt();
    const auto layout = plan::data_parallel_layout(rank.group());
    distribute_module(*model, layout.mesh, layout.parameters);
    const auto [tokens, next] = batch();
    torch::manual_seed(5);
    const auto drawn = torch::rand({4});
    torch::manual_seed(5);
    int runs = 0;
    plan::measured_step({.module = model.get(),
                         .batch = {tokens, next},
                         .loss =
                             [&](const auto& in) {
                               ++runs;
                               return torch::cross_entropy_loss(
                                   torch::dropout(model->forward(in[0]), 0.5, /*train=*/true).transpose(1, 2), in[1]);
                             }},
                        layout, 2);
    EXPECT_EQ(runs, 3);
    EXPECT_TRUE(torch::equal(torch::rand({4}), drawn));
  });
}

TEST(AutoParallel, WhatIsDecidedIsKept) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    AutoParallelOptions options;
    options.mesh = {2};
    options.parameters = {{"blocks.*.fc1.*", {Shard(0)}}, {"blocks.*.fc2.weight", {Shard(1)}}};
    expect_losses_of_one_device(rank.group(), options);
    const auto model = small_gpt();
    planned(*model, rank.group(), options);
    const auto parameters = model->named_parameters();
    EXPECT_EQ(placements_of(parameters["blocks.1.fc1.weight"]), Placements{Shard(0)});
    EXPECT_EQ(placements_of(parameters["blocks.0.fc2.weight"]), Placements{Shard(1)});
  });
}

TEST(AutoParallel, AFourRankMeshIsFound) {
  test::run_ranks(4, kOptions, [](Rank& rank) { expect_losses_of_one_device(rank.group(), {}); });
}

TEST(AutoParallel, APlanIsWrittenAndTaken) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "plan.json";
  test::run_ranks(2, kOptions, [&](Rank& rank) {
    AutoParallelOptions options;
    options.plan_file = file;
    const auto first = planned(*small_gpt(), rank.group(), options);
    EXPECT_TRUE(rank.rank() != 0 || std::filesystem::exists(file));
    const auto second = planned(*small_gpt(), rank.group(), options);
    EXPECT_EQ(first.parameters, second.parameters);
    EXPECT_EQ(first.batch, second.batch);
    EXPECT_TRUE(second.remarks.empty());
  });
}

TEST(AutoParallel, MistakesAreNamed) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const auto error_of = [&](const AutoParallelOptions& options) -> std::string {
      try {
        planned(*small_gpt(), rank.group(), options);
      } catch (const Error& error) {
        return error.what();
      }
      return "no error";
    };
    AutoParallelOptions without_mesh;
    without_mesh.parameters = {{"*fc1.weight", {Shard(0)}}};
    EXPECT_NE(error_of(without_mesh).find("give options.mesh, too"), std::string::npos);
    AutoParallelOptions different;
    different.mesh = {2};
    different.parameters = {{"*fc1.weight", {Shard(rank.rank())}}};
    EXPECT_NE(error_of(different).find("rank(s) 1 made another plan than rank 0"), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep
