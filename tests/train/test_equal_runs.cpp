// Runs that divide the same samples in other ways, over ranks, steps and batches, and train the same.
#include <lockstep/state/safetensors.h>
#include <lockstep/train/output/run_files.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "base/expect_error.h"
#include "train/small_run.h"

namespace lockstep::train {
namespace {

using test::cifar10;
using test::expect_words;
using test::mnist;
using test::read_file;
using test::SmallRun;

// 100 pictures in steps of 33: in the last, two ranks have none.
TEST(EqualRuns, SynchronizedBatchNormsTrainAsOnOneRank) {
  const std::vector<std::string> keys{"model.name=resnet20", "data.remainder=exact", "data.shuffle=true",
                                      "train.epochs=1", "optimizer.lr=0.01"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    return more;
  };
  cifar10().run(1, cifar10().config("whole", with({"data.batch_size=33"})));
  cifar10().run(3, cifar10().config("divided", with({"data.batch_size=11", "parallel.sync_batch_norm=true"})));
  cifar10().run(3, cifar10().config("local", with({"data.batch_size=11"})));
  const auto whole = cifar10().losses("whole");
  const auto divided = cifar10().losses("divided");
  ASSERT_EQ(whole.size(), 4U);
  ASSERT_EQ(divided.size(), 4U);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(divided[i].second, whole[i].second, 1e-3 * whole[i].second) << "step " << i + 1;
  }
  EXPECT_GT(std::abs(cifar10().losses("local")[0].second - whole[0].second),
            3e-3 * whole[0].second);  // so it makes a difference
  EXPECT_NEAR(cifar10().result("divided")["eval_loss"].get<double>(),
              cifar10().result("whole")["eval_loss"].get<double>(), 2e-2);
}

std::vector<at::Tensor> weights_in(const SmallRun& run, const std::string& work_dir) {
  std::vector<at::Tensor> out;
  for (auto& [name, tensor] : load_safetensors(run.work_dir(work_dir) / "model.safetensors")) out.push_back(tensor);
  return out;
}

void expect_close_weights(const SmallRun& run, const std::string& a, const std::string& b, double tolerance) {
  const auto first = weights_in(run, a);
  const auto second = weights_in(run, b);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(torch::allclose(first[i], second[i], tolerance, tolerance)) << (first[i] - second[i]).abs().max();
  }
}

TEST(EqualRuns, TwoRanksWithHalfTheBatchEqualOneWithTheWhole) {
  mnist().run(1, mnist().config("whole", {"data.batch_size=16"}));
  mnist().run(2, mnist().config("halves", {"data.batch_size=8"}));
  expect_close_weights(mnist(), "whole", "halves", 1e-5);
  EXPECT_EQ(mnist().result("whole")["eval_accuracy"], mnist().result("halves")["eval_accuracy"]);
  EXPECT_NEAR(mnist().result("whole")["eval_loss"], mnist().result("halves")["eval_loss"], 1e-5);
}

TEST(EqualRuns, UnevenLastBatchesWeighAsMuchAsTheirPictures) {
  // 100 pictures, 33 a step: the fourth step has one.
  const std::vector<std::string> exact = {"data.remainder=exact", "data.shuffle=true"};
  const auto with_batch = [&](std::string batch) {
    auto overrides = exact;
    overrides.push_back("data.batch_size=" + batch);
    return overrides;
  };
  mnist().run(1, mnist().config("uneven_1", with_batch("33")));
  mnist().run(3, mnist().config("uneven_3", with_batch("11")));
  EXPECT_EQ(mnist().result("uneven_1")["steps"], 8);
  EXPECT_EQ(mnist().result("uneven_3")["steps"], 8);
  // In the last step only one of three ranks has a picture. The 50 for evaluation do not divide by three either.
  EXPECT_EQ(mnist().result("uneven_3")["eval_samples"], 50);
  EXPECT_EQ(mnist().result("uneven_1")["eval_accuracy"], mnist().result("uneven_3")["eval_accuracy"]);
  expect_close_weights(mnist(), "uneven_1", "uneven_3", 1e-5);
  const auto one = read_metrics(mnist().work_dir("uneven_1") / "metrics.jsonl");
  const auto three = read_metrics(mnist().work_dir("uneven_3") / "metrics.jsonl");
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i].loss, three[i].loss, 1e-5);
}

/// `data.global_batch_size` in place of the small run's batch for each rank.
std::vector<std::string> global_batch(int size, std::vector<std::string> more) {
  more.insert(more.begin(), {"data.batch_size=null", fmt::format("data.global_batch_size={}", size)});
  return more;
}

void expect_close_losses(const SmallRun& run, const std::string& got, const std::string& expected, double tolerance) {
  const auto losses = run.losses(got);
  const auto others = run.losses(expected);
  ASSERT_EQ(losses.size(), others.size()) << got;
  ASSERT_FALSE(losses.empty());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i].second, others[i].second, tolerance) << got << ", step " << losses[i].first;
  }
  for (const auto* key : {"steps", "epochs", "eval_samples", "eval_accuracy", "global_batch_size"}) {
    EXPECT_EQ(run.result(got)[key], run.result(expected)[key]) << got << ", " << key;
  }
  EXPECT_NEAR(run.result(got)["eval_loss"].get<double>(), run.result(expected)["eval_loss"].get<double>(), tolerance);
}

TEST(EqualRuns, EveryOptimizerTrainsAlikeOnAnyNumberOfRanks) {
  for (const std::string name : {"rmsprop", "adagrad", "lars", "lamb", "muon"}) {
    const auto config = [&](const std::string& work_dir, std::vector<std::string> more) {
      more.insert(more.end(), {"optimizer.name=" + name, "optimizer.lr=0.01", "optimizer.weight_decay=0.01",
                               "optimizer.no_decay=[norms, biases]", "model.freeze=[fc1.bias]",
                               "optimizer.groups=[{match: [\"fc2.*\"], lr_factor: 2}]"});
      return mnist().config(work_dir, global_batch(8, std::move(more)));
    };
    mnist().run(1, config(name + "_1", {}));
    mnist().run(2, config(name + "_2", {}));
    const bool rounds = name == "muon";  // its matrices, to bfloat16: one that differs in its last bit may round apart
    expect_close_losses(mnist(), name + "_2", name + "_1", rounds ? 1e-3 : 1e-5);
    expect_close_weights(mnist(), name + "_2", name + "_1", rounds ? 1e-2 : 1e-5);
    if (name.starts_with("la") || name == "muon") continue;  // these need whole parameters
    mnist().run(2, config(name + "_2_sharded", {"parallel.shard_optimizer=true"}));
    expect_close_losses(mnist(), name + "_2_sharded", name + "_2", 1e-6);
    expect_close_weights(mnist(), name + "_2_sharded", name + "_2", 1e-6);
  }
}

// 100 pictures in batches of 11: the tenth has one. Two batches a step, and gradients that are clipped.
TEST(EqualRuns, AGlobalBatchTrainsAlikeOnAnyNumberOfRanks) {
  const auto config = [](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"data.remainder=exact", "train.accumulate=2", "train.clip_norm=0.5"});
    return mnist().config(name, global_batch(11, std::move(more)));
  };
  mnist().run(1, config("global_1", {}));
  mnist().run(2, config("global_2", {}));
  mnist().run(3, config("global_3", {"parallel.shard_optimizer=true"}));
  mnist().run(4, config("global_4", {}));
  mnist().run(4, config("global_semi_auto", {"parallel.mode=semi_auto"}));
  mnist().run(4, config("global_mesh", {"parallel.mode=semi_auto", "parallel.mesh={data: -1, model: 2}",
                                        "parallel.shard={\"fc1.*\": {model: 0}}"}));
  mnist().run(3, config("global_auto", {"parallel.mode=auto"}));
  EXPECT_EQ(mnist().result("global_1")["steps"], 10);
  for (const auto* name : {"global_2", "global_3", "global_4", "global_semi_auto", "global_mesh", "global_auto"}) {
    expect_close_losses(mnist(), name, "global_1", 1e-5);
    expect_close_weights(mnist(), name, "global_1", 1e-5);
  }
}

TEST(EqualRuns, AGlobalBatchMayHaveFewerPicturesThanRanks) {
  const auto config = [](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"train.steps=8", "data.remainder=pad"});
    return mnist().config(name, global_batch(3, std::move(more)));
  };
  mnist().run(1, config("few_1", {}));
  mnist().run(4, config("few_4", {"parallel.shard_optimizer=true"}));
  mnist().run(4, config("few_semi_auto", {"parallel.mode=semi_auto"}));
  expect_close_losses(mnist(), "few_4", "few_1", 1e-5);
  expect_close_losses(mnist(), "few_semi_auto", "few_1", 1e-5);
  expect_words(read_file(mnist().work_dir("few_4") / "log/rank.0"),
               {"batches of 3 samples for 4 ranks: the last 1 have nothing to do"});
  const auto local = cifar10().config(
      "few_local", global_batch(3, {"model.name=resnet20", "train.steps=1", "parallel.buffers=local"}));
  for (const auto& outcome : cifar10().outcomes(4, local)) {
    EXPECT_FALSE(outcome.ok());
    expect_words(outcome.output, {"data.global_batch_size", "1 of 4 ranks have no samples", "broadcast"});
  }
}

TEST(EqualRuns, BatchNormsSeeAllOfAGlobalBatch) {
  const auto config = [](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"model.name=resnet20", "train.steps=3", "train.epochs=1", "optimizer.lr=0.01"});
    return cifar10().config(name, global_batch(10, std::move(more)));
  };
  cifar10().run(1, config("norms_1", {}));
  cifar10().run(3, config("norms_3", {"parallel.sync_batch_norm=true"}));
  cifar10().run(3, config("norms_semi_auto", {"parallel.mode=semi_auto"}));
  const auto whole = cifar10().losses("norms_1");
  for (const auto* name : {"norms_3", "norms_semi_auto"}) {
    const auto divided = cifar10().losses(name);
    ASSERT_EQ(divided.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(divided[i].second, whole[i].second, 1e-3 * whole[i].second) << name;
  }
}

TEST(EqualRuns, AccumulatedBatchesEqualALargeOne) {
  mnist().run(2, mnist().config("large", {"data.remainder=exact", "data.batch_size=24"}));
  mnist().run(2, mnist().config("small", {"data.remainder=exact", "data.batch_size=8", "train.accumulate=3"}));
  EXPECT_EQ(mnist().result("large")["steps"], 6);
  EXPECT_EQ(mnist().result("small")["steps"], 6);
  expect_close_weights(mnist(), "large", "small", 1e-5);
}

TEST(EqualRuns, SummedGradientsAreTheMeanTimesTheRanks) {
  mnist().run(2, mnist().config("mean", {"optimizer.lr=0.02"}));
  mnist().run(2, mnist().config("sum", {"optimizer.lr=0.01", "parallel.gradients_mean=false"}));
  expect_close_weights(mnist(), "mean", "sum", 1e-5);
}

TEST(EqualRuns, ClippingBoundsTheStep) {
  mnist().run(1, mnist().config("start", {"train.steps=1", "optimizer.lr=1e-30", "optimizer.name=sgd"}));
  mnist().run(
      1, mnist().config("clipped", {"train.steps=1", "optimizer.lr=1", "optimizer.name=sgd", "train.clip_norm=0.25"}));
  double squares = 0;
  const auto before = weights_in(mnist(), "start");
  const auto after = weights_in(mnist(), "clipped");
  for (std::size_t i = 0; i < before.size(); ++i) squares += (after[i] - before[i]).square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(squares), 0.25, 1e-4);
}

TEST(EqualRuns, StartsFromGivenWeights) {
  mnist().run(1, mnist().config("giver", {"train.steps=3"}));
  const auto weights = (mnist().work_dir("giver") / "model.safetensors").string();
  mnist().run(2, mnist().config("taker", {"train.steps=1", "optimizer.lr=1e-30", "model.weights=" + weights}));
  expect_close_weights(mnist(), "giver", "taker", 0);
  expect_words(read_file(mnist().work_dir("taker") / "log/rank.0"), {"starting from the weights in", weights});
}

}  // namespace
}  // namespace lockstep::train
