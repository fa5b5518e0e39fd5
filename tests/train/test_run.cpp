// Whole runs on synthetic data, as real processes.
#include <lockstep/base/config.h>
#include <lockstep/base/process.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/train/output/metrics.h>
#include <lockstep/train/picture_pipeline.h>
#include <lockstep/train/weights/safetensors.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/expect_error.h"
#include "support/open_mpi.h"
#include "train/small_run.h"
#include "train/viewers/event_reader.h"

namespace lockstep::train {
namespace {

using test::expect_words;
using test::mnist;
using test::read_file;
using test::SmallRun;

const SmallRun& cifar10() {
  static const SmallRun run("cifar10");
  return run;
}

TEST(Run, LeavesEverythingItPromises) {
  const auto config = mnist().config("all");
  mnist().run(2, config);
  const auto folder = mnist().work_dir("all");
  for (const auto* name :
       {"config.yaml", "metrics.jsonl", "loss.svg", "model.safetensors", "result.json", "log/rank.0", "log/rank.1",
        "checkpoints/step_00000006.sharded/index.json", "checkpoints/step_00000012.sharded/index.json"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
  const auto result = mnist().result("all");
  EXPECT_EQ(result["world_size"], 2);
  EXPECT_EQ(result["steps"], 12);  // 100 pictures, 16 a step, the rest dropped, two epochs
  EXPECT_EQ(result["epochs"], 2);
  EXPECT_EQ(result["backend"], "gloo");
  EXPECT_EQ(result["eval_samples"], 50);
  EXPECT_GT(result["samples_per_s"], 0.0);
  EXPECT_EQ(result["params_sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(print_config(load_run_config(folder / "config.yaml")), print_config(config));
}

// 100 pictures in steps of 33: in the last, two ranks have none.
TEST(Run, SynchronizedBatchNormsTrainAsOnOneRank) {
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

TEST(Run, LogsAndMetricsAgree) {
  mnist().run(2, mnist().config("logs", {"callbacks.metrics_every=2", "callbacks.tensorboard=true"}));
  const auto folder = mnist().work_dir("logs");
  const auto lines = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].step, 2);
  EXPECT_EQ(lines[5].step, 12);
  EXPECT_EQ(lines[5].epoch, 2);
  EXPECT_EQ(lines[0].lr, 0.1);
  const auto loss_in_log = [&](int rank) {
    const auto log = read_file(folder / "log" / ("rank." + std::to_string(rank)));
    expect_words(log, {"epoch: 1 step: 1, loss is ", "rank " + std::to_string(rank) + " of 2", "gloo", "cpu"});
    const auto at = log.find("epoch: 1 step: 2, loss is ");
    return std::stod(log.substr(at + 26));
  };
  // Both ranks have 8 pictures, so the mean over all pictures is the mean of the two.
  EXPECT_NEAR(lines[0].loss, (loss_in_log(0) + loss_in_log(1)) / 2, 1e-6);

  const auto files = test::event_files(folder / "tensorboard");
  ASSERT_EQ(files.size(), 1u) << "of rank 0 alone";
  std::map<std::string, std::map<std::int64_t, float>> curves;
  for (const auto& scalar : test::read_scalars(files.front())) curves[scalar.tag][scalar.step] = scalar.value;
  EXPECT_EQ(curves["train/loss"].size(), lines.size());
  for (const auto& line : lines) EXPECT_EQ(curves["train/loss"][line.step], static_cast<float>(line.loss));
  EXPECT_EQ(curves["evaluation/accuracy"].at(12), mnist().result("logs")["eval_accuracy"].get<float>());
}

// What TensorBoard shows of several files: of each, what comes before the step where the next begins.
TEST(Run, TensorBoardShowsOneCurveOfARunInParts) {
  const auto in_parts = [](const char* steps) {
    mnist().run(1, mnist().config("board", {"callbacks.tensorboard=true", "train.steps=" + std::string(steps)}));
  };
  in_parts("5");
  in_parts("12");
  std::map<std::int64_t, float> shown;
  for (const auto& file : test::event_files(mnist().work_dir("board") / "tensorboard")) {
    const auto begin = static_cast<std::int64_t>(test::field_of(test::read_records(file).at(1), 2).value().bits);
    shown.erase(shown.lower_bound(begin), shown.end());
    for (const auto& scalar : test::read_scalars(file)) {
      if (scalar.tag != "train/loss") continue;
      EXPECT_TRUE(shown.emplace(scalar.step, scalar.value).second) << scalar.step;
    }
  }
  const auto losses = mnist().losses("board");
  ASSERT_EQ(shown.size(), losses.size());
  for (const auto& [step, loss] : losses) EXPECT_EQ(shown[step], static_cast<float>(loss)) << step;
}

TEST(Run, TheSameSeedGivesTheSameBits) {
  mnist().run(2, mnist().config("seed_a"));
  mnist().run(2, mnist().config("seed_b", {"data.workers=3", "data.prefetch=9"}));
  mnist().run(2, mnist().config("seed_c", {"system.seed=4"}));
  EXPECT_EQ(mnist().hash("seed_a"), mnist().hash("seed_b"));
  EXPECT_NE(mnist().hash("seed_a"), mnist().hash("seed_c"));
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

TEST(Run, TwoRanksWithHalfTheBatchEqualOneWithTheWhole) {
  mnist().run(1, mnist().config("whole", {"data.batch_size=16"}));
  mnist().run(2, mnist().config("halves", {"data.batch_size=8"}));
  expect_close_weights(mnist(), "whole", "halves", 1e-5);
  EXPECT_EQ(mnist().result("whole")["eval_accuracy"], mnist().result("halves")["eval_accuracy"]);
  EXPECT_NEAR(mnist().result("whole")["eval_loss"], mnist().result("halves")["eval_loss"], 1e-5);
}

TEST(Run, UnevenLastBatchesWeighAsMuchAsTheirPictures) {
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

TEST(Run, EveryOptimizerTrainsAlikeOnAnyNumberOfRanks) {
  for (const std::string name : {"rmsprop", "adagrad", "lars", "lamb"}) {
    const auto config = [&](const std::string& work_dir, std::vector<std::string> more) {
      more.insert(more.end(), {"optimizer.name=" + name, "optimizer.lr=0.01", "optimizer.weight_decay=0.01",
                               "optimizer.no_decay=[norms, biases]", "model.freeze=[fc1.bias]",
                               "optimizer.groups=[{match: [\"fc2.*\"], lr_factor: 2}]"});
      return mnist().config(work_dir, global_batch(8, std::move(more)));
    };
    mnist().run(1, config(name + "_1", {}));
    mnist().run(2, config(name + "_2", {}));
    expect_close_losses(mnist(), name + "_2", name + "_1", 1e-5);
    expect_close_weights(mnist(), name + "_2", name + "_1", 1e-5);
    if (name.starts_with("la")) continue;  // these need whole parameters
    mnist().run(2, config(name + "_2_sharded", {"parallel.shard_optimizer=true"}));
    expect_close_losses(mnist(), name + "_2_sharded", name + "_2", 1e-6);
    expect_close_weights(mnist(), name + "_2_sharded", name + "_2", 1e-6);
  }
}

TEST(Run, APatternThatMatchesNothingIsRefused) {
  for (const std::string key : {"optimizer.groups=[{match: fc9.*}]", "model.freeze=[fc9.*]"}) {
    for (const auto& outcome : mnist().outcomes(2, mnist().config("no_match", {key}))) {
      EXPECT_FALSE(outcome.ok());
      expect_words(outcome.output, {key.substr(0, key.find('=')), "fc9.*", "fc1.weight"});
    }
  }
}

// 100 pictures in batches of 11: the tenth has one. Two batches a step, and gradients that are clipped.
TEST(Run, AGlobalBatchTrainsAlikeOnAnyNumberOfRanks) {
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

TEST(Run, AGlobalBatchMayHaveFewerPicturesThanRanks) {
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

TEST(Run, BatchNormsSeeAllOfAGlobalBatch) {
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

TEST(Run, AccumulatedBatchesEqualALargeOne) {
  mnist().run(2, mnist().config("large", {"data.remainder=exact", "data.batch_size=24"}));
  mnist().run(2, mnist().config("small", {"data.remainder=exact", "data.batch_size=8", "train.accumulate=3"}));
  EXPECT_EQ(mnist().result("large")["steps"], 6);
  EXPECT_EQ(mnist().result("small")["steps"], 6);
  expect_close_weights(mnist(), "large", "small", 1e-5);
}

TEST(Run, SummedGradientsAreTheMeanTimesTheRanks) {
  mnist().run(2, mnist().config("mean", {"optimizer.lr=0.02"}));
  mnist().run(2, mnist().config("sum", {"optimizer.lr=0.01", "parallel.gradients_mean=false"}));
  expect_close_weights(mnist(), "mean", "sum", 1e-5);
}

TEST(Run, ClippingBoundsTheStep) {
  mnist().run(1, mnist().config("start", {"train.steps=1", "optimizer.lr=1e-30", "optimizer.name=sgd"}));
  mnist().run(
      1, mnist().config("clipped", {"train.steps=1", "optimizer.lr=1", "optimizer.name=sgd", "train.clip_norm=0.25"}));
  double squares = 0;
  const auto before = weights_in(mnist(), "start");
  const auto after = weights_in(mnist(), "clipped");
  for (std::size_t i = 0; i < before.size(); ++i) squares += (after[i] - before[i]).square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(squares), 0.25, 1e-4);
}

TEST(Run, StartsFromGivenWeights) {
  mnist().run(1, mnist().config("giver", {"train.steps=3"}));
  const auto weights = (mnist().work_dir("giver") / "model.safetensors").string();
  mnist().run(2, mnist().config("taker", {"train.steps=1", "optimizer.lr=1e-30", "model.weights=" + weights}));
  expect_close_weights(mnist(), "giver", "taker", 0);
  expect_words(read_file(mnist().work_dir("taker") / "log/rank.0"), {"starting from the weights in", weights});
}

TEST(Run, EverySwitchTrainsAConvolutionalNetwork) {
  const std::vector<std::string> common = {
      "model.name=resnet20", "train.steps=3", "data.batch_size=4", "optimizer.lr=0.01",
      "data.train_transforms=[random_crop: {size: 32, padding: 4}, random_horizontal_flip, rescale: {scale: 0.004}, "
      "hwc2chw]"};
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    cifar10().run(2, cifar10().config(name, more));
    return cifar10().result(name)["eval_loss"].get<double>();
  };
  const double plain = run("plain", {});
  EXPECT_NEAR(run("expanded", {"loss.name=cross_entropy_expand"}), plain, 1e-3);
  EXPECT_NEAR(run("channels_last", {"model.channels_last=true"}), plain, 1e-2);
  EXPECT_NEAR(run("bfloat16", {"model.autocast=bfloat16"}), plain, 0.2);
  EXPECT_TRUE(std::isfinite(run("local_buffers", {"parallel.buffers=local"})));
  EXPECT_TRUE(std::isfinite(run("adamw", {"optimizer.name=adamw", "optimizer.lr=0.001"})));
}

TEST(Run, ShowsTheLossLinesOfRankZeroOnTheConsole) {
  const auto outcomes = mnist().outcomes(2, mnist().config("console", {"train.epochs=1"}));
  test::expect_all_ok(outcomes);
  expect_words(outcomes[0].output, {"\nepoch: 1 step: 1, loss is ", "\nepoch: 1 step: 6, loss is ", "samples/s",
                                    "evaluation after epoch 1: accuracy ", "rank 0 of 2", "backend gloo, device cpu"});
  EXPECT_EQ(outcomes[0].output.find('\r'), std::string::npos);
  EXPECT_EQ(outcomes[1].output, "");
  const auto all =
      mnist().outcomes(2, mnist().config("console_all", {"train.epochs=1", "callbacks.console_ranks=all"}));
  expect_words(all[1].output, {"rank 1 of 2", "\nepoch: 1 step: 1, loss is "});
}

TEST(Run, ProgressLinesWhereThereIsNoTerminal) {
  const auto outcomes =
      mnist().outcomes(1, mnist().config("progress", {"callbacks.progress=on", "callbacks.loss_every=0"}));
  expect_words(outcomes[0].output, {"epoch 2/2 [========================] 100% step 12/12 loss "});
}

TEST(Run, ALossThatIsNotFiniteOnOneRankEndsAllNamingEpochStepAndRank) {
  // A scale that only black survives; rank 0 has a copy of the data in which all pictures are black.
  const auto black = mnist().folder() / "black";
  std::filesystem::copy(mnist().folder() / "data", black);
  const auto pictures = black / "train-images-idx3-ubyte";
  constexpr std::size_t kHeader = 16;  // bytes
  auto bytes = read_file(pictures);
  ASSERT_GT(bytes.size(), kHeader);
  std::fill(bytes.begin() + kHeader, bytes.end(), '\0');
  std::ofstream(pictures, std::ios::binary) << bytes;
  const std::string bright = "data.train_transforms=[rescale: {scale: 1e30}, rescale: {scale: 1e8}, hwc2chw]";
  const auto bad = mnist().config("nan", {bright});
  const auto good = mnist().config("nan", {bright, "data.root=" + black.string()});
  const auto outcomes = test::rank_outcomes(2, SmallRun::small_rank_options(), [&](test::Rank& rank) {
    run_training(rank.rank() == 1 ? bad : good, rank.world());
  });
  for (const auto& outcome : outcomes) {
    EXPECT_FALSE(outcome.ok());
    EXPECT_FALSE(outcome.hit_deadline);
    expect_words(outcome.output, {"epoch: 1 step: 1, loss is ", "on rank 1"});
  }
  EXPECT_FALSE(std::filesystem::exists(mnist().work_dir("nan") / "result.json"));
  expect_words(read_file(mnist().work_dir("nan") / "log/rank.1"), {"[error]", "loss is "});
  expect_words(read_file(mnist().work_dir("nan") / "log/rank.0"), {"[error]", "on rank 1"});
}

TEST(Run, EvaluationThatIsNotDescribedSeesPicturesAsTrainingDoes) {
  mnist().run(1, mnist().config("eval_given"));
  mnist().run(1, mnist().config("eval_left_out", {"data.eval_transforms=null"}));
  EXPECT_EQ(mnist().result("eval_left_out")["eval_loss"], mnist().result("eval_given")["eval_loss"]);
  auto config = mnist().config("eval_by_chance", {"data.eval_transforms=null"}).data;
  ASSERT_EQ(config.train_transforms.items.size(), 2u);
  ConfigNode flip;
  flip.kind = ConfigNode::Kind::scalar;
  flip.scalar = "random_horizontal_flip";
  config.train_transforms.items.insert(config.train_transforms.items.begin(), flip);
  EXPECT_NE(make_pipeline(config, data::Split::train).describe().find("random_horizontal_flip"), std::string::npos);
  EXPECT_EQ(make_pipeline(config, data::Split::test).describe().find("random_horizontal_flip"), std::string::npos);
}

TEST(Run, BadInputIsAnsweredBeforeTraining) {
  const auto message = [&](std::vector<std::string> overrides) {
    const auto outcome = mnist().outcomes(1, mnist().config("bad", overrides)).front();
    EXPECT_FALSE(outcome.ok());
    return outcome.output;
  };
  expect_words(message({"data.root=" + mnist().folder().string() + "/nowhere"}), {"nowhere"});
  expect_words(message({"model.num_classes=7"}), {"model.num_classes", "7", "10 classes"});
  expect_words(message({"data.batch_size=1000"}), {"data.batch_size", "1000", "100 samples", "data.remainder=exact"});
  expect_words(message({"data.eval_transforms=[resize: {size: 14}, rescale: {scale: 1}, hwc2chw]"}),
               {"data.train_transforms", "1x28x28", "1x14x14"});
  expect_words(message({"model.weights=nowhere.safetensors"}), {"nowhere.safetensors"});
  expect_words(message({"checkpoint.resume=nowhere.safetensors"}), {"nowhere.safetensors"});
  expect_words(message({"system.work_dir=" + mnist().folder().string() + "/data/SYNTHETIC.txt"}),
               {"system.work_dir", "SYNTHETIC.txt"});
  expect_words(message({"checkpoint.folder=/proc/none"}), {"checkpoint.folder", "/proc/none"});
}

TEST(Run, StandAloneIsForOneProcess) {
  const auto outcomes = mnist().outcomes(2, mnist().config("alone", {"parallel.mode=stand_alone"}));
  for (const auto& outcome : outcomes) expect_words(outcome.output, {"parallel.mode", "stand_alone", "of 2"});
  mnist().run(1, mnist().config("alone", {"parallel.mode=stand_alone", "train.steps=2"}));
}

const std::vector<std::string> kConvolutional = {"model.name=resnet20", "train.steps=4", "data.batch_size=4"};

std::string hash_with_backend(const std::string& backend, const std::string& work_dir) {
  auto overrides = kConvolutional;
  overrides.push_back("parallel.backend=" + backend);
  cifar10().run(2, cifar10().config(work_dir, overrides));
  EXPECT_EQ(cifar10().result(work_dir)["backend"], backend);
  return cifar10().hash(work_dir);
}

// Twice with each backend; and because a sum of two numbers has one rounding only, two ranks must get the very same
// with every backend.
TEST(Backends, TheSameSeedGivesTheSameBits) {
  const auto hash = hash_with_backend("gloo", "gloo_a");
  EXPECT_EQ(hash_with_backend("gloo", "gloo_b"), hash);
  EXPECT_EQ(hash_with_backend("shm", "shm_a"), hash);
  EXPECT_EQ(hash_with_backend("shm", "shm_b"), hash);
}

#ifdef LOCKSTEP_TEST_MPIRUN
std::string hash_with_mpi(const std::string& work_dir) {
  auto overrides = kConvolutional;
  overrides.push_back("parallel.backend=mpi");
  const auto file = cifar10().folder() / (work_dir + ".yaml");
  std::ofstream(file) << print_config(cifar10().config(work_dir, overrides));
  ChildOptions options;
  options.arguments = {LOCKSTEP_TEST_MPIRUN, "-n", "2", LOCKSTEP_TEST_TRAIN_PROGRAM, file.string()};
  options.environment = test::environment_for_mpirun();
  const auto ran = run_and_capture(options, std::chrono::seconds(60));
  EXPECT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_EQ(cifar10().result(work_dir)["backend"], "mpi");
  return cifar10().hash(work_dir);
}

TEST(Backends, MpiGivesTheSameBitsToo) {
  const auto hash = hash_with_backend("gloo", "gloo_c");
  EXPECT_EQ(hash_with_mpi("mpi_a"), hash);
  EXPECT_EQ(hash_with_mpi("mpi_b"), hash);
}
#endif

TEST(RealData, ThePerceptronLearnsMnist) {
  const auto* folder = std::getenv("LOCKSTEP_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "LOCKSTEP_TEST_DATA does not name a folder with mnist/";
  const std::vector<std::string> overrides = {"data.root=" + std::string(folder) + "/mnist", "train.epochs=1",
                                              "system.work_dir=" + mnist().work_dir("real").string()};
  mnist().run(2, load_run_config(std::filesystem::path(LOCKSTEP_CONFIGS) / "mlp_mnist.yaml", overrides));
  EXPECT_EQ(mnist().result("real")["eval_samples"], 10000);
  EXPECT_GT(mnist().result("real")["eval_accuracy"], 0.96);
}

}  // namespace
}  // namespace lockstep::train
