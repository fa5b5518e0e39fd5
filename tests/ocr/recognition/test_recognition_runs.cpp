// Whole runs of CRNN from YAML: the same numbers on any number of ranks, after a kill too; what is left of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"
#include "data/files/picture_files.h"
#include "ocr/recognition/word_files.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

std::vector<nlohmann::json> json_lines(const std::filesystem::path& file) {
  std::vector<nlohmann::json> all;
  std::istringstream in(read_file(file));
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

class RecognitionRuns : public testing::Test {
 protected:
  RecognitionRuns() {
    write_words(root() / "train_rec_gt.txt", root() / "train/images", made_words(80, 1));
    write_words(root() / "test_rec_gt.txt", root() / "test/images", made_words(23, 2));
  }

  std::filesystem::path root() const { return folder_.path(); }

  /// The shipped configuration, with a small network and few steps.
  Words command(const std::string& name, const Words& keys) const {
    Words words = {name,
                   "--config",
                   std::string(LOCKSTEP_SOURCE_DIR) + "/configs/rec/crnn/crnn_vgg7.yaml",
                   "data.root=" + root().string(),
                   "model.channels=8",
                   "model.hidden=24",
                   "data.batch_size=null",
                   "data.global_batch_size=8",
                   "data.eval_batch_size=5",
                   "data.workers=1",
                   "optimizer.lr=0.004",
                   "callbacks.metrics_every=1"};
    words.insert(words.end(), keys.begin(), keys.end());
    return words;
  }

  Captured run(int ranks, const Words& words, const Environment& more = {}) const {
    if (ranks == 1) return lockstep(words, more);
    Words all = words;
    all.insert(all.begin(), LOCKSTEP_BINARY);
    return under_lockstep_run(ranks, all, more);
  }

  Captured train(int ranks, const std::string& work_dir, Words keys, const Environment& more = {}) const {
    keys.push_back("system.work_dir=" + (root() / work_dir).string());
    return run(ranks, command("train", keys), more);
  }

  nlohmann::json result(const std::string& work_dir) const {
    return nlohmann::json::parse(read_file(root() / work_dir / "result.json"));
  }

  std::vector<double> losses(const std::string& work_dir) const {
    std::vector<double> all;
    for (const auto& line : json_lines(root() / work_dir / "metrics.jsonl")) {
      if (line.contains("loss")) all.push_back(line["loss"]);
    }
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(RecognitionRuns, AnyNumberOfRanksGivesTheSameLossesAndMetrics) {
  const Words keys = {"train.steps=20", "parallel.sync_batch_norm=true", "train.eval_every=100", "optimizer.lr=0.0005"};
  const auto one = train(1, "ranks1", keys);
  ASSERT_TRUE(one.status.ok()) << one.err;
  const auto expected = losses("ranks1");
  ASSERT_GE(expected.size(), 20U);
  for (const int ranks : {2, 4}) {
    const auto name = fmt::format("ranks{}", ranks);
    const auto many = train(ranks, name, keys);
    ASSERT_TRUE(many.status.ok()) << many.err;
    const auto actual = losses(name);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(actual[i], expected[i], 1e-4 * std::max(1.0, expected[i])) << i;
  }
  // Of the same weights, to the last digit.
  std::vector<nlohmann::json> evaluations;
  for (const int ranks : {1, 2, 4}) {
    const auto file = (root() / fmt::format("eval{}.json", ranks)).string();
    auto words = command("eval", {});
    words.insert(words.end(), {"--weights", (root() / "ranks1/model.safetensors").string(), "--json", file});
    const auto ran = run(ranks, words);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    evaluations.push_back(nlohmann::json::parse(read_file(file)));
    for (const auto* key : {"accuracy", "norm_edit_distance"}) {
      EXPECT_EQ(evaluations.back()[key], evaluations.front()[key]) << ranks;
    }
    EXPECT_EQ(evaluations.back()["eval_samples"], 23) << evaluations.back();
  }
}

// So small a network reads most of the words after 400 steps (the first 200 it says blanks alone); guessing reads none.
TEST_F(RecognitionRuns, LearnsToReadAndLeavesItsResults) {
  const Words keys = {"model.hidden=32",
                      "data.train_transforms=[resize: {size: [32, 40]}, normalize: {mean: 127, std: 127}, hwc2chw]",
                      "scheduler.name=constant",
                      "train.epochs=200",
                      "train.eval_every=1000",
                      "checkpoint.every_epochs=0"};
  Words more = {"train.steps=400", "optimizer.lr=0.006"};
  more.insert(more.end(), keys.begin(), keys.end());
  const auto ran = train(1, "out", more);
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto left = result("out");
  EXPECT_GE(left["accuracy"].get<double>(), 0.6) << left;
  EXPECT_GE(left["norm_edit_distance"].get<double>(), 0.7) << left;
  const auto folder = root() / "read";
  auto words = command("predict", keys);
  words.insert(words.end(), {"--weights", (root() / "out/model.safetensors").string(), "--out", folder.string()});
  const auto read = run(2, words);
  ASSERT_TRUE(read.status.ok()) << read.err;
  const auto lines = json_lines(folder / "predictions.jsonl");
  const auto meant = made_words(23, 2);
  ASSERT_EQ(lines.size(), meant.size());
  int right = 0;
  std::string results;
  for (std::size_t i = 0; i < meant.size(); ++i) {
    right += lines[i]["text"] == meant[i] ? 1 : 0;
    EXPECT_GT(lines[i]["confidence"].get<double>(), 0.2);
    EXPECT_LE(lines[i]["confidence"].get<double>(), 1.0);
    results += fmt::format("word_{}.png\t{}\n", i + 1, lines[i]["text"].get<std::string>());
  }
  EXPECT_EQ(right, std::lround(left["accuracy"].get<double>() * 23));
  EXPECT_EQ(read_file(folder / "rec_results.txt"), results);
}

TEST_F(RecognitionRuns, AKilledRunEndsWithTheSameHash) {
  const Words keys = {"train.steps=14", "checkpoint.every_steps=5", "checkpoint.every_epochs=0",
                      "train.eval_every=100"};
  ASSERT_TRUE(train(1, "whole", keys).status.ok());
  EXPECT_FALSE(train(1, "killed", keys, {{"LOCKSTEP_FAULT", "rank=0,step=8,action=kill"}}).status.ok());
  const auto resumed = train(1, "killed", keys);
  ASSERT_TRUE(resumed.status.ok()) << resumed.err;
  EXPECT_EQ(result("killed")["params_sha256"], result("whole")["params_sha256"]);
  EXPECT_EQ(losses("killed"), losses("whole"));
}

TEST_F(RecognitionRuns, WordsAreLeftOutAlikeOnAllRanks) {
  auto list = read_file(root() / "train_rec_gt.txt");
  write_bytes(root() / "train_rec_gt.txt", list + "word_1.png\t...\nword_1.png\t\nword_2.png\tCAFÉ\n");
  const auto ran = train(2, "out", {"train.steps=1"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  for (const auto* log : {"log/rank.0", "log/rank.1"}) {
    EXPECT_THAT(read_file(root() / "out" / log),
                testing::AllOf(HasSubstr("1 of 83 words of data.train are empty and left out"),
                               HasSubstr("1 of 83 words of data.train have no character of the dictionary"),
                               HasSubstr("train_rec_gt.txt:83")));
  }
}

TEST_F(RecognitionRuns, BadInputEndsTheRunWithFileAndLine) {
  auto list = read_file(root() / "train_rec_gt.txt");
  write_bytes(root() / "train_rec_gt.txt", list + "none.png\tabc\n");
  const auto ran = train(2, "out", {"train.epochs=1", "data.shuffle=false", "data.remainder=exact"});
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, testing::AllOf(HasSubstr("none.png"), HasSubstr("train_rec_gt.txt:81")));
}

}  // namespace
}  // namespace lockstep::test
