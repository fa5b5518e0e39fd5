// Whole runs on data from disk, by YAML alone: the same on any number of ranks.
#include <lockstep/base/config.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/sampler.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/evaluation/check_data.h>
#include <lockstep/train/evaluation/evaluate_run.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>
#include <lockstep/train/run_group.h>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/expect_error.h"
#include "data/files/picture_files.h"
#include "train/small_run.h"

namespace lockstep::test {
namespace {

class DiskData : public testing::Test {
 protected:
  std::filesystem::path root() const { return folder_.path(); }

  train::ResolvedRun config(const std::string& yaml, const std::string& name,
                            std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"system.work_dir=" + (root() / name).string(), "parallel.backend=tcp",
                               "parallel.timeout_s=60", "parallel.start_timeout_s=60"});
    return train::read_run_config(parse_config(yaml, "disk.yaml", more), train::ResolvedRun());
  }

  nlohmann::json result(const std::string& name) const {
    return nlohmann::json::parse(read_file(root() / name / "result.json"));
  }

  TemporaryFolder folder_;
};

std::string table(int rows, std::uint64_t seed) {
  data::RandomStream random(seed, data::RandomPurpose::synthesize, {});
  std::string text = "x,y,kind,sum,size\n";
  for (int i = 0; i < rows; ++i) {
    const double x = random.uniform(-1, 1), y = random.uniform(-1, 1);
    const bool large = random.uniform() < 0.5;
    text += fmt::format("{},{},{},{},{}\n", x, y, large ? "large" : "small", (large ? 3 : 1) * x + y,
                        large ? "big" : "little");
  }
  return text;
}

std::string table_yaml(const std::filesystem::path& root) {
  return fmt::format(R"(
model: {{name: mlp, hidden: [32], num_classes: 1}}
task: {{name: regression}}
data: {{name: csv, train: {0}/train.csv, eval: {0}/eval.csv, numbers: [x, y], categories: [kind], targets: [sum], global_batch_size: 12,
        eval_batch_size: 5}}
optimizer: {{name: adam, lr: 0.01}}
train: {{epochs: 15}}
)",
                     root.string());
}

TEST_F(DiskData, ATableTrainsAPerceptronTheSameOnAnyNumberOfRanks) {
  write_bytes(root() / "train.csv", table(120, 1));
  write_bytes(root() / "eval.csv", table(47, 2));
  mnist().run(1, config(table_yaml(root()), "one"));
  const auto one = result("one");
  EXPECT_LT(one["eval_mae"].get<double>(), 0.35);
  EXPECT_GE(one["eval_rmse"].get<double>(), one["eval_mae"].get<double>());
  EXPECT_NEAR(one["eval_loss"].get<double>(), std::pow(one["eval_rmse"].get<double>(), 2), 1e-5);
  EXPECT_EQ(one["eval_samples"], 47);
  for (const int ranks : {2, 4}) {
    mnist().run(ranks, config(table_yaml(root()), fmt::format("ranks{}", ranks)));
    const auto many = result(fmt::format("ranks{}", ranks));
    for (const auto* key : {"eval_mae", "eval_rmse", "eval_loss"}) {
      EXPECT_NEAR(many[key].get<double>(), one[key].get<double>(), 1e-5) << key << " on " << ranks;
    }
    EXPECT_EQ(many["eval_samples"], 47);
  }
  mnist().run(2, config(table_yaml(root()), "semi_auto", {"parallel.mode=semi_auto"}));
  EXPECT_NEAR(result("semi_auto")["eval_mae"].get<double>(), one["eval_mae"].get<double>(), 1e-4);
}

// A folder of classes or a word of a table that has another name: the numbers of classes would be those of others.
TEST_F(DiskData, ClassesAreThoseThatTheRunHasLearned) {
  write_bytes(root() / "train.csv", table(80, 1));
  write_bytes(root() / "eval.csv", table(40, 2));
  const std::vector<std::string> keys = {"task.name=\"\"", "data.targets=[size]", "data.target=category",
                                         "train.epochs=2", "model.num_classes=2"};
  mnist().run(1, config(table_yaml(root()), "run", keys));
  EXPECT_EQ(nlohmann::json::parse(read_file(root() / "run" / "classes.json")), (nlohmann::json{"big", "little"}));
  for (const auto* name : {"train.csv", "eval.csv"}) {
    auto text = read_file(root() / name);
    for (std::size_t at = text.find(",big\n"); at != std::string::npos; at = text.find(",big\n", at)) {
      text.replace(at, 5, ",vast\n");
    }
    write_bytes(root() / name, text);
  }
  const std::initializer_list<std::string_view> words = {"class 'vast' of column size", "was not there in training",
                                                         "there were big, little"};
  auto more = keys;
  more[3] = "train.epochs=3";
  World alone;
  alone.rendezvous = Rendezvous::alone;
  expect_error(ErrorKind::data, words, [&] { train::run_training(config(table_yaml(root()), "run", more), alone); });
  auto measured = keys;
  measured.push_back("model.weights=" + (root() / "run").string());
  const auto asked = config(table_yaml(root()), "measured", measured);
  expect_error(ErrorKind::data, words, [&] {
    train::evaluate_run(asked, train::configured_program(asked), train::connect_run(asked, alone), nullptr);
  });
}

// Prices: without scaling a network does not come near to them in some epochs.
TEST_F(DiskData, TargetsOfLargeNumbersAreLearntWhereTheyAreStandardized) {
  const auto prices = [](const std::string& text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      const auto line = text.substr(at, end - at);
      const auto comma = line.rfind(',', line.rfind(',') - 1);
      const auto sum = line.substr(comma + 1, line.rfind(',') - comma - 1);
      out += line.substr(0, comma + 1) + (at == 0 ? sum : fmt::format("{}", 300000 + 1000 * std::stod(sum))) +
             line.substr(line.rfind(',')) + "\n";
      at = end + 1;
    }
    return out;
  };
  write_bytes(root() / "train.csv", prices(table(120, 1)));
  write_bytes(root() / "eval.csv", prices(table(47, 2)));
  const std::vector<std::string> keys = {"data.standardize_targets=true", "metrics=[r2]", "train.epochs=20"};
  mnist().run(2, config(table_yaml(root()), "scaled", keys));
  const auto scaled = result("scaled");
  EXPECT_GT(scaled["eval_r2"].get<double>(), 0.9);
  EXPECT_LT(scaled["eval_mae"].get<double>(), 350) << "in the unit of the file";
  EXPECT_LT(scaled["eval_loss"].get<double>(), 1) << "of standardized numbers";
}

TEST_F(DiskData, ACategoryOfATableIsClassified) {
  write_bytes(root() / "train.csv", table(80, 1));
  write_bytes(root() / "eval.csv", table(40, 2));
  const std::vector<std::string> keys = {"task.name=\"\"", "data.targets=[size]", "data.target=category",
                                         "train.epochs=20", "model.num_classes=2"};
  mnist().run(2, config(table_yaml(root()), "classes", keys));
  EXPECT_GT(result("classes")["eval_accuracy"].get<double>(), 0.95);
  auto more = keys;
  more.insert(more.end(), {"data.folds=4", "data.fold=1", "data.eval=\"\"", "data.sampling=balanced", "loss.name=focal",
                           "loss.class_weights=[1, 2]"});
  mnist().run(2, config(table_yaml(root()), "folds", more));
  EXPECT_EQ(result("folds")["eval_samples"], 20);
  EXPECT_GT(result("folds")["eval_accuracy"].get<double>(), 0.9);
  World alone;
  alone.rendezvous = Rendezvous::alone;
  auto wide = keys;
  wide.insert(wide.end(), {"model.num_classes=5", "train.epochs=1"});
  mnist().run(1, config(table_yaml(root()), "wide", wide));
  EXPECT_NE(read_file(root() / "wide/log/rank.0").find("model.num_classes is 5, and csv has 2 classes"),
            std::string::npos);
  auto wrong = keys;
  wrong.back() = "model.num_classes=1";
  expect_error(ErrorKind::config, {"model.num_classes", "is 1", "csv has 2 classes"},
               [&] { train::run_training(config(table_yaml(root()), "wrong", wrong), alone); });
  expect_error(ErrorKind::config, {"model.num_classes", "targets"}, [&] {
    train::run_training(config(table_yaml(root()), "wrong", {"model.num_classes=3", "data.workers=0"}), alone);
  });
}

TEST_F(DiskData, ACheckNamesAllThatIsWrongWithPictures) {
  const auto png = [](int width) { return png_of(pattern(width, 4, width), width, 4); };
  for (const auto* name : {"train/cat/a.png", "train/dog/b.png", "val/dog/c.png"}) write_bytes(root() / name, png(4));
  const auto check = [&](const std::vector<std::string>& more = {}) {
    return train::check_data(
        config(fmt::format("model: {{name: mlp, num_classes: 2}}\noptimizer: {{lr: 0.1}}\ntrain: {{epochs: 1}}\n"
                           "data: {{name: image_folder, root: {}, train_transforms: [to_tensor]}}",
                           root().string()),
               "check", more));
  };
  const auto whole = check();
  EXPECT_EQ(whole.problem_count(), 0) << to_text(whole);
  ASSERT_EQ(whole.splits.size(), 2U);
  EXPECT_EQ(whole.splits[0].labels, (std::map<std::int64_t, std::int64_t>{{0, 1}, {1, 1}}));
  EXPECT_EQ(whole.splits[0].as_read.at("pictures").sizes, (std::set<std::vector<std::int64_t>>{{4, 4, 3}}));
  EXPECT_EQ(whole.splits[0].as_trained.at("pictures").sizes, (std::set<std::vector<std::int64_t>>{{3, 4, 4}}));
  expect_words(to_text(whole), {"train: 2 samples", "cat 1, dog 1", "no sample cat", "ok"});
  write_bytes(root() / "train/cat/cut.png", png(4).substr(0, 40));
  write_bytes(root() / "train/dog/wide.png", png(9));
  expect_words(to_text(check()), {"cut.png", "data.collate", "4x4x3 to 4x9x3", "2 problems"});
  EXPECT_EQ(check({"data.collate=pad"}).problem_count(), 1);
  expect_words(to_text(check({"data.collate=pad", "model.num_classes=1"})),
               {"label 1 is not one of 1 classes", "model.num_classes"});
}

TEST_F(DiskData, WhatActsOnEvaluationsNeedsDataForThem) {
  write_bytes(root() / "train.csv", table(80, 1));
  write_bytes(root() / "eval.csv", table(40, 2));
  World alone;
  alone.rendezvous = Rendezvous::alone;
  for (const auto* name : {"early_stopping", "best_checkpoints"}) {
    expect_error(ErrorKind::config, {name, "no data for them", "data.eval", "remove it"}, [&] {
      train::run_training(
          config(table_yaml(root()), "without", {fmt::format("callbacks.use=[{}]", name), "data.eval=\"\""}), alone);
    });
  }
  mnist().run(1, config(table_yaml(root()), "at_the_end",
                        {"callbacks.use=[early_stopping]", "train.eval_every=0", "train.epochs=1"}));
  EXPECT_NE(read_file(root() / "at_the_end" / "log" / "rank.0").find("train.eval_every 0"), std::string::npos);
}

// The keys that would help are named.
TEST_F(DiskData, ModelsTasksAndDataThatDoNotFitEachOther) {
  write_bytes(root() / "train.csv", table(80, 1));
  write_bytes(root() / "eval.csv", table(40, 2));
  World alone;
  alone.rendezvous = Rendezvous::alone;
  expect_error(ErrorKind::config, {"model.name", "lenet5 takes pictures [C, H, W]", "data.name csv", "model.name=mlp"},
               [&] { train::run_training(config(table_yaml(root()), "lenet", {"model.name=lenet5"}), alone); });
  expect_error(ErrorKind::config, {"task.name", "'targets'", "labels, pictures", "data.name=csv", "remove task.name"},
               [&] {
                 train::run_training(mnist().config("pictures", {"task.name=regression", "data.workers=0"}), alone);
               });
}

TEST_F(DiskData, CrossEntropyIsForSharesAlone) {
  write_bytes(root() / "train.csv", table(80, 1));
  write_bytes(root() / "eval.csv", table(40, 2));
  World alone;
  alone.rendezvous = Rendezvous::alone;
  expect_error(ErrorKind::data, {"task.loss", "bce is for targets from 0 to 1", "use mse"}, [&] {
    train::run_training(config(table_yaml(root()), "wrong", {"task.loss=bce", "data.workers=0"}), alone);
  });
}

// Of the same weights, metrics are equal on any number of ranks, whichever batches they come from.
TEST_F(DiskData, MetricsOfAnEvaluationAreEqualOnAnyNumberOfRanks) {
  write_bytes(root() / "train.csv", table(80, 1));
  write_bytes(root() / "eval.csv", table(43, 2));
  std::vector<std::string> keys = {
      "task.name=\"\"",       "data.targets=[size]",
      "data.target=category", "train.epochs=1",
      "model.num_classes=2",  "metrics=[accuracy, top_k: {k: 1}, f1, recall: {average: each}, confusion]"};
  mnist().run(1, config(table_yaml(root()), "trained", keys));
  keys.push_back("model.weights=" + (root() / "trained/model.safetensors").string());
  const auto trained = result("trained");
  for (const auto* mode : {"data_parallel", "semi_auto"}) {
    for (const int ranks : {1, 2, 4}) {
      keys.push_back(fmt::format("parallel.mode={}", mode));
      const auto asked = config(table_yaml(root()), "evaluated", keys);
      run_ranks(ranks, SmallRun::small_rank_options(), [&](Rank& rank) {
        auto world = rank.world();
        if (world.size == 1) world.rendezvous = Rendezvous::alone;
        const auto evaluation =
            train::evaluate_run(asked, train::configured_program(asked), train::connect_run(asked, world), nullptr);
        for (const auto* name : {"accuracy", "top_1", "f1", "recall_0", "recall_1", "confusion_0_0", "confusion_0_1",
                                 "confusion_1_0", "confusion_1_1"}) {
          EXPECT_EQ(evaluation.metrics.at(name), trained[std::string("eval_") + name].get<double>()) << name;
        }
        EXPECT_EQ(evaluation.samples, 43);
      });
      keys.pop_back();
    }
  }
}

std::string folder_yaml(const std::filesystem::path& root) {
  return fmt::format(R"(
model: {{name: resnet20, num_classes: 2}}
data:
  name: image_folder
  root: {}
  global_batch_size: 8
  train_transforms: [resize: {{size: 20}}, random_crop: {{size: 16}}, random_horizontal_flip, to_tensor, normalize: {{mean: 0.5, std: 0.25}}]
  eval_transforms: [resize: {{size: 16}}, center_crop: {{size: 16}}, to_tensor, normalize: {{mean: 0.5, std: 0.25}}]
optimizer: {{name: momentum, lr: 0.002}}
train: {{epochs: 3}}
)",
                     root.string());
}

TEST_F(DiskData, AFolderOfPicturesTrainsAResNet) {
  for (int i = 0; i < 24; ++i) {
    const int width = 20 + i % 5, height = 22 + i % 3;
    const auto dark = pattern(width, height, 5 * i), light = pattern(width, height, 5 * i + 90);
    write_bytes(root() / fmt::format("{}/dark/{}.jpg", i < 16 ? "train" : "val", i), jpeg_of(dark, width, height));
    write_bytes(root() / fmt::format("{}/light/{}.png", i < 16 ? "train" : "val", i), png_of(light, width, height));
  }
  const auto yaml = folder_yaml(root());
  // Few steps: which kernels this machine's libraries choose shows in the last bits, and grows.
  mnist().run(1, config(yaml, "one", {"train.steps=2"}));
  mnist().run(2, config(yaml, "two", {"train.steps=2", "parallel.sync_batch_norm=true"}));
  EXPECT_EQ(result("one")["eval_samples"], 16);
  EXPECT_NEAR(result("two")["eval_loss"].get<double>(), result("one")["eval_loss"].get<double>(), 5e-3);

  // Ended in the middle and gone on: equal to the last bit.
  mnist().run(2, config(yaml, "whole"));
  mnist().run(2, config(yaml, "parts", {"train.steps=7"}));
  mnist().run(2, config(yaml, "parts"));
  EXPECT_EQ(result("parts")["params_sha256"], result("whole")["params_sha256"]);
  const std::string mixed =
      "data.train_transforms=[random_resized_crop: {size: 16}, rand_augment, to_tensor, normalize: "
      "{mean: 0.5, std: 0.25}, random_erasing: {noise: true}, mixup, cutmix: {prob: 0.5}]";
  mnist().run(2, config(yaml, "mixed", {mixed}));
  mnist().run(2, config(yaml, "mixed_parts", {mixed, "train.steps=7"}));
  mnist().run(2, config(yaml, "mixed_parts", {mixed}));
  EXPECT_EQ(result("mixed_parts")["params_sha256"], result("mixed")["params_sha256"]);
  EXPECT_NE(result("mixed")["params_sha256"], result("whole")["params_sha256"]);

  // A picture that is damaged ends the run on all ranks, or is counted on all ranks.
  write_bytes(root() / "train/dark/3.jpg", "no picture");
  const auto failed = mnist().outcomes(2, config(yaml, "fails"));
  for (const auto& outcome : failed) {
    EXPECT_FALSE(outcome.ok());
    EXPECT_NE(outcome.output.find("dark/3.jpg"), std::string::npos) << outcome.output;
  }
  mnist().run(2, config(yaml, "skips", {"data.on_error=skip"}));
  EXPECT_EQ(result("skips")["eval_samples"], 16);
}

// Before the first step, or at it, and in terms of keys and files.
TEST_F(DiskData, MistakesInPicturesNameTheKeyAndTheFile) {
  for (int i = 0; i < 12; ++i) {
    const std::string split = i < 8 ? "train" : "val";
    const int side = i == 11 ? 18 : 16;
    write_bytes(root() / fmt::format("{}/dark/{}.png", split, i), png_of(pattern(side, side, 5 * i), side, side));
    write_bytes(root() / fmt::format("{}/light/{}.png", split, i), png_of(pattern(16, 16, 5 * i + 90), 16, 16));
  }
  World alone;
  alone.rendezvous = Rendezvous::alone;
  const auto refused = [&](ErrorKind kind, std::vector<std::string> keys,
                           std::initializer_list<std::string_view> words) {
    keys.insert(keys.end(), {"data.workers=0", "callbacks.metrics_every=1"});
    expect_error(kind, words, [&] { train::run_training(config(folder_yaml(root()), "wrong", keys), alone); });
    EXPECT_EQ(read_file(root() / "wrong" / "metrics.jsonl"), "") << "no step was made";
  };
  refused(ErrorKind::config, {"data.train_transforms=[center_crop: {size: 16}]", "data.eval_transforms=~"},
          {"[data.train_transforms] the model gets pictures of dtype Byte and shape [8, 16, 16, 3]", "add to_tensor"});
  refused(ErrorKind::config, {"data.eval_transforms=[center_crop: {size: 16}]"},
          {"[data.eval_transforms] makes `pictures` Byte [1, 16, 16, 3]", "Float [1, 3, 16, 16]"});
  refused(ErrorKind::data, {"data.eval_transforms=[to_tensor]"},
          {"[data.collate] is stack", "val/dark/11.png is [3, 18, 18]", "is [3, 16, 16]", "set data.collate to pad"});
  write_bytes(root() / "a_file", "x");
  for (const std::string callback : {"best_checkpoints: {folder: ", "profiler: {file: "}) {
    const auto below = (root() / "a_file").string() + (callback.starts_with("profiler") ? "/trace.json" : "");
    refused(ErrorKind::config, {"callbacks.use=[" + callback + below + "}]"}, {"cannot make the folder", "a_file"});
  }
  std::filesystem::create_directory(root() / "a_folder");
  refused(ErrorKind::config, {"callbacks.use=[profiler: {file: " + (root() / "a_folder").string() + "}]"},
          {"a_folder, which is a folder", "another `file`"});

  write_bytes(root() / "list.txt", "dark/1.png\t0\nlight/1.png\t1\ndark/2.png\t0\nlight/2.png\t7\n");
  const auto list = [&](const std::string& more) {
    return std::vector<std::string>{"data=null", more,
                                    fmt::format("data={{name: image_list, root: {0}/train, train: {0}/list.txt, "
                                                "batch_size: 4, train_transforms: [to_tensor]}}",
                                                root().string())};
  };
  for (const auto* loss : {"loss.name=cross_entropy", "loss.name=cross_entropy_expand"}) {
    refused(ErrorKind::data, list(loss),
            {"[model.num_classes] is 2, and sample 3 (", "light/2.png) has 7 in `labels`", "from 0 to 1"});
  }
}

std::string stream_yaml(const std::filesystem::path& root) {
  return fmt::format(R"(
model: {{name: gpt, vocabulary: 256, layers: 1, heads: 2, width: 16, context: 8}}
task: {{name: language_modelling, sample_bytes: 0}}
data: {{name: token_stream, train: [{0}/shards], eval: [{0}/shards/0.txt], length: 8, window: 4, global_batch_size: 6}}
optimizer: {{name: adam, lr: 0.01}}
train: {{epochs: 2}}
)",
                     root.string());
}

// Ended in the middle of an epoch and gone on, a stream is read as without the end: also by another number of ranks.
TEST_F(DiskData, AStreamGoesOnWhereItWas) {
  for (int shard = 0; shard < 5; ++shard) {
    std::string text;
    for (int i = 0; i < 12 + 9 * shard; ++i) text += fmt::format("line {} of {}\n", i * i, shard);
    write_bytes(root() / fmt::format("shards/{}.txt", shard), text);
  }
  const auto yaml = stream_yaml(root());
  mnist().run(2, config(yaml, "whole"));
  mnist().run(2, config(yaml, "parts", {"train.steps=13"}));
  mnist().run(2, config(yaml, "parts"));
  EXPECT_EQ(result("parts")["params_sha256"], result("whole")["params_sha256"]);
  mnist().run(3, config(yaml, "others", {"train.steps=13"}));
  mnist().run(4, config(yaml, "others"));
  EXPECT_NEAR(result("others")["eval_loss"].get<double>(), result("whole")["eval_loss"].get<double>(), 1e-4);
  EXPECT_EQ(result("others")["steps"], result("whole")["steps"]);
}

}  // namespace
}  // namespace lockstep::test
