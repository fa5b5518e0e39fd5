// Runs in the global view: the same file, the same numbers, whatever the mesh and the placements.
#include <lockstep/base/error.h>
#include <lockstep/train/modes/mesh_config.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "train/small_run.h"

namespace lockstep::test {
namespace {

void expect_same_losses(const SmallRun& run, const std::string& got, const std::string& expected) {
  const auto a = run.losses(got);
  const auto b = run.losses(expected);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_NEAR(a[i].second, b[i].second, 1e-4 * std::abs(b[i].second)) << got << ", step " << a[i].first;
  }
}

/// The global batch is 8 pictures in all of these, as in SmallRun::config on one rank.
train::ResolvedRun semi_auto(const SmallRun& run, const std::string& name, int data_ranks,
                             std::vector<std::string> overrides) {
  overrides.emplace_back("parallel.mode=semi_auto");
  overrides.emplace_back("data.batch_size=" + std::to_string(8 / data_ranks));
  return run.config(name, std::move(overrides));
}

TEST(SemiAuto, TrainsAsOneDeviceDoes) {
  const SmallRun run;
  run.run(1, run.config("alone", {"data.batch_size=8"}));
  run.run(2, semi_auto(run, "data", 2, {}));
  run.run(2, semi_auto(run, "zero", 2, {"parallel.shard={\"*\": {data: 0}}"}));
  run.run(2,
          semi_auto(run, "model", 1, {"parallel.mesh={data: 1, model: -1}", "parallel.shard={\"fc1.*\": {model: 0}}"}));
  for (const auto* each : {"data", "zero", "model"}) {
    expect_same_losses(run, each, "alone");
    EXPECT_EQ(run.result(each)["eval_accuracy"], run.result("alone")["eval_accuracy"]) << each;
    EXPECT_EQ(run.result(each)["world_size"], 2);
  }
}

// Each rank updates a part of what is replicated along `data`: with norms of whole parameters, too, and beside another
// axis. A checkpoint of it is one of any other mode.
TEST(SemiAuto, DividesTheOptimizer) {
  const SmallRun run;
  const std::vector<std::vector<std::string>> optimizers = {
      {"optimizer.name=adamw", "optimizer.momentum=null", "optimizer.lr=0.01", "optimizer.weight_decay=0.1"},
      {"optimizer.name=lars", "optimizer.lr=0.5"},
      {"train.clip_norm=0.5", "train.accumulate=2"}};
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    const auto number = std::to_string(i);
    const auto with = [&](std::vector<std::string> keys) {
      keys.insert(keys.end(), optimizers[i].begin(), optimizers[i].end());
      return keys;
    };
    run.run(1, run.config("alone" + number, with({"data.batch_size=8"})));
    run.run(2, semi_auto(run, "divided" + number, 2, with({"parallel.shard_optimizer=true"})));
    run.run(4, semi_auto(run, "beside" + number, 2,
                         with({"parallel.shard_optimizer=true", "parallel.mesh={data: 2, model: 2}",
                               "parallel.shard={\"fc1.*\": {model: 0}}"})));
    expect_same_losses(run, "divided" + number, "alone" + number);
    expect_same_losses(run, "beside" + number, "alone" + number);
  }
  run.run(2, semi_auto(run, "begun", 2, {"parallel.shard_optimizer=true", "train.epochs=1"}));
  run.run(1, run.config("begun", {"data.batch_size=8"}));
  run.run(1, run.config("whole", {"data.batch_size=8"}));
  expect_same_losses(run, "begun", "whole");
}

TEST(SemiAuto, ShardsFullyByAWrapper) {
  const SmallRun run;
  run.run(1, run.config("alone", {"data.batch_size=8"}));
  const auto wrapped = [&](const std::string& name, const std::string& wrapper) {
    return run.config(name, {"data.batch_size=4", wrapper});
  };
  run.run(2, wrapped("all", "parallel.wrapper={type: fully_sharded, threshold_kb: 0}"));
  run.run(2, wrapped("large", "model_wrapper_cfg={type: MMFullyShardedDataParallel, threshold_kb: 10}"));
  run.run(2,
          wrapped("data", "parallel.wrapper={type: separate, find_unused_parameters: true, broadcast_buffers: true}"));
  for (const auto* each : {"all", "large", "data"}) expect_same_losses(run, each, "alone");
}

// Twelve batches in an epoch make two steps of five and one of two.
TEST(SemiAuto, ThoroughAccumulatesAsOneDeviceDoes) {
  const SmallRun run;
  run.run(1, run.config("alone", {"data.batch_size=8", "train.accumulate=5"}));
  const auto accumulated = [&](const std::string& name, int data_ranks, std::vector<std::string> overrides) {
    overrides.emplace_back("train.accumulate=5");
    return semi_auto(run, name, data_ranks, std::move(overrides));
  };
  run.run(1, accumulated("one", 1, {}));
  run.run(2, accumulated("data", 2, {}));
  run.run(2, accumulated("zero", 2, {"parallel.shard={\"*\": {data: 0}}"}));
  run.run(4, accumulated("both", 2, {"parallel.mesh={data: 2, model: 2}", "parallel.shard={\"fc1.*\": {model: 0}}"}));
  for (const auto* each : {"one", "data", "zero", "both"}) expect_same_losses(run, each, "alone");
}

TEST(SemiAuto, ThoroughGradientsAreSummedOverTheRanks) {
  const SmallRun run;
  const auto summed = [&](const std::string& name, int data_ranks, std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"optimizer.lr=0.01", "parallel.gradients_mean=false", "train.accumulate=2"});
    return semi_auto(run, name, data_ranks, std::move(overrides));
  };
  for (const int ranks : {1, 2, 4}) {
    run.run(1, run.config(fmt::format("alone{}", ranks),
                          {"data.batch_size=8", "train.accumulate=2", fmt::format("optimizer.lr={}", 0.01 * ranks)}));
  }
  run.run(1, summed("one", 1, {}));
  run.run(2, summed("two", 2, {}));
  run.run(4, summed("four", 4, {"parallel.shard={\"*\": {data: 0}}"}));
  run.run(4, summed("both", 2, {"parallel.mesh={data: 2, model: 2}", "parallel.shard={\"fc1.*\": {model: 0}}"}));
  expect_same_losses(run, "one", "alone1");
  expect_same_losses(run, "two", "alone2");
  expect_same_losses(run, "four", "alone4");
  expect_same_losses(run, "both", "alone4");
}

// Norms of a divided parameter are those of all of it.
TEST(SemiAuto, ThoroughEveryOptimizerTrainsAsOnOneDevice) {
  const SmallRun run;
  for (const std::string name : {"lars", "lamb", "muon", "rmsprop", "adagrad"}) {
    const std::vector<std::string> keys = {"optimizer.name=" + name,
                                           "optimizer.lr=0.01",
                                           "optimizer.weight_decay=0.01",
                                           "optimizer.no_decay=[biases]",
                                           "optimizer.groups=[{match: fc2.weight, lr_factor: 2}]",
                                           "model.freeze=[fc1.bias]",
                                           "train.steps=8"};
    auto alone = keys;
    alone.emplace_back("data.batch_size=8");
    auto divided = keys;
    divided.insert(divided.end(), {"parallel.mesh={data: 2, model: 2}",
                                   "parallel.shard={\"fc1.*\": {model: 0}, \"fc2.weight\": {data: 0, model: 1}}"});
    run.run(1, run.config(name + "_alone", alone));
    run.run(4, semi_auto(run, name, 2, divided));
    expect_same_losses(run, name, name + "_alone");
  }
}

TEST(SemiAuto, ATwoDimensionalMesh) {
  const SmallRun run;
  run.run(1, run.config("alone", {"data.batch_size=8"}));
  run.run(4,
          semi_auto(run, "both", 2,
                    {"parallel.mesh={data: 2, model: 2}", "parallel.shard={\"fc1.*\": \"[Replicate(), Shard(0)]\"}"}));
  expect_same_losses(run, "both", "alone");
}

// The machine of the metrics died between the checkpoint and the line: all ranks know what it was.
TEST(SemiAuto, ALostLineOfTheMetricsIsWrittenAgain) {
  const SmallRun run;
  run.run(2, semi_auto(run, "whole", 2, {"callbacks.metrics_every=4"}));
  run.run(2, semi_auto(run, "lost", 2, {"callbacks.metrics_every=4", "train.steps=6"}));
  ASSERT_TRUE(std::filesystem::remove(run.work_dir("lost") / "metrics.jsonl"));
  run.run(2, semi_auto(run, "lost", 2, {"callbacks.metrics_every=4"}));
  EXPECT_EQ(run.losses("lost"), run.losses("whole"));
}

TEST(SemiAuto, GoesOnFromTheCheckpointOfAnotherMesh) {
  const SmallRun run;
  run.run(1, run.config("alone", {"data.batch_size=8"}));
  run.run(1, run.config("resumed", {"data.batch_size=8", "train.epochs=1"}));
  run.run(2, semi_auto(run, "resumed", 2, {"parallel.shard={\"*weight\": {data: 1}}"}));
  expect_same_losses(run, "resumed", "alone");
}

TEST(SemiAuto, StrategiesInMindSporesTuples) {
  const SmallRun run;
  run.run(1, run.config("alone", {"data.batch_size=8"}));
  run.run(4, semi_auto(run, "tuples", 2,
                       {"parallel.mesh={data: 2, model: 2}",
                        "parallel.strategy={fc1: [[2, 1], [2, 1]], fc2: \"((2, 2), (1, 2))\"}"}));
  expect_same_losses(run, "tuples", "alone");
}

TEST(SemiAuto, StrategiesBecomePlacements) {
  const SmallRun run;
  const std::vector<std::string> names{"fc.weight", "fc.bias", "conv.weight"};
  const auto plan_of = [&](const std::string& strategy, const std::string& shard = "null") -> std::string {
    try {
      const auto config = run.config("x", {"parallel.mode=semi_auto", "parallel.mesh={data: 2, model: 4}",
                                           "parallel.strategy=" + strategy, "parallel.shard=" + shard});
      std::string text;
      const auto plan = train::whole_plan(config.parallel, train::mesh_layout(config.parallel, 8), names);
      for (const auto& [name, placements] : plan) text += name + to_string(placements) + " ";
      return text;
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(plan_of("{fc: [[2, 1], [4, 1]]}"), "fc.weight[Replicate(), Shard(0)] fc.bias[Replicate(), Shard(0)] ");
  EXPECT_EQ(plan_of("{fc: [[2, 4], [1, 4]]}"), "fc.weight[Replicate(), Shard(1)] fc.bias[Replicate(), Replicate()] ");
  EXPECT_EQ(plan_of("{conv: \"((2, 1, 1, 1), (4, 1, 1, 1))\"}"), "conv.weight[Replicate(), Shard(0)] ");
  EXPECT_NE(plan_of("{fc: [[2, 4], [1, 2]]}").find("in 4 parts in its input and in 2 in its weight"),
            std::string::npos);
  EXPECT_NE(plan_of("{fc: [[8, 1], [1, 1]]}").find("no axis of 8 ranks left"), std::string::npos);
  EXPECT_NE(plan_of("{fd: [[2, 1], [4, 1]]}").find("did you mean 'fc.weight'"), std::string::npos);
  EXPECT_NE(plan_of("{fc: [[2, 1]]}").find("two tuples"), std::string::npos);
  EXPECT_NE(plan_of("{fc: [[2, 0], [1, 1]]}").find("is no strategy"), std::string::npos);
  EXPECT_NE(plan_of("{fc: [[2, 1], [4, 1]]}", "{fc.weight: {model: 1}}").find("remove one of them"), std::string::npos);
}

TEST(SemiAuto, MistakesAreNamed) {
  const SmallRun run;
  const auto error_of = [&](const std::vector<std::string>& overrides) -> std::string {
    try {
      const auto config = run.config("wrong", overrides);
      train::module_plan(config.parallel, train::mesh_layout(config.parallel, 4));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto expect = [&](const std::string& override_text, const std::string& part) {
    EXPECT_NE(error_of({"parallel.mode=semi_auto", override_text}).find(part), std::string::npos)
        << override_text << ": " << error_of({"parallel.mode=semi_auto", override_text});
  };
  expect("parallel.mesh={data: 3}", "3 makes 3 ranks, but 4 were started");
  expect("parallel.mesh={data: two}", "expected a number of ranks");
  expect("parallel.mesh=[4]", "expected axes with their sizes");
  expect("parallel.shard={fc: {model: 0}}", "has no axis 'model', only data");
  expect("parallel.shard={fc: \"S0,R\"}", "has 2 placements, the mesh 1 axes");
  expect("parallel.shard={fc: Sharded}", "is not a placement");
  expect("parallel.wrapper={type: data_parallel}", "parallel.wrapper.type data_parallel is parallel.mode");
  EXPECT_NE(error_of({"parallel.mesh={data: 4}"}).find("for parallel.mode semi_auto"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::test
