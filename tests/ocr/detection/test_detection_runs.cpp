// Whole runs of DBNet from YAML: the same numbers on any number of ranks, learning, what is left, mistakes of users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"
#include "data/files/picture_files.h"
#include "ocr/detection/text_pictures.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class DetectionRuns : public testing::Test {
 protected:
  DetectionRuns() { made_pictures(root()); }

  fs::path root() const { return folder_.path(); }

  /// The shipped configuration with small pictures.
  Words command(const std::string& name, const Words& keys) const {
    Words words = {name, "--config", std::string(LOCKSTEP_SOURCE_DIR) + "/configs/det/dbnet/db_r18_icdar15.yaml"};
    const auto small = keys_for_made_pictures(root());
    words.insert(words.end(), small.begin(), small.end());
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

  nlohmann::json json_of(const fs::path& file) const { return nlohmann::json::parse(read_file(root() / file)); }

  std::vector<double> losses(const std::string& work_dir) const {
    std::vector<double> all;
    std::istringstream in(read_file(root() / work_dir / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("loss")) all.push_back(json["loss"]);
    }
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(DetectionRuns, AnyNumberOfRanksGivesTheSameLossesAndMetrics) {
  // Three steps at a small rate, as the steep loss of the approximate binary map makes rounding grow from step to step:
  // twenty at the configuration's are those of test_numbers_of_ranks.cpp, in float64.
  const Words keys = {"train.steps=3", "parallel.sync_batch_norm=true", "train.eval_every=100", "optimizer.lr=0.0001"};
  std::vector<double> expected;
  for (const int ranks : {1, 2, 4}) {
    const auto name = fmt::format("ranks{}", ranks);
    const auto ran = train(ranks, name, keys);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    const auto actual = losses(name);
    ASSERT_GE(actual.size(), 3U);
    if (ranks == 1) expected = actual;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(actual[i], expected[i], 1e-4 * std::max(1.0, expected[i])) << ranks << " ranks, step " << i;
    }
  }
  // Of the same weights, to the last digit.
  std::vector<nlohmann::json> evaluations;
  for (const int ranks : {1, 2, 4}) {
    const auto file = fmt::format("eval{}.json", ranks);
    auto words = command("eval", {"task.box_threshold=0.1", "task.map_threshold=0.1"});
    words.insert(words.end(),
                 {"--weights", (root() / "ranks1/model.safetensors").string(), "--json", (root() / file).string()});
    const auto ran = run(ranks, words);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    evaluations.push_back(json_of(file));
    for (const auto* key : {"hmean", "precision", "recall", "eval_samples"}) {
      EXPECT_EQ(evaluations.back()[key], evaluations.front()[key]) << ranks;
    }
    EXPECT_NEAR(evaluations.back()["eval_loss"].get<double>(), evaluations.front()["eval_loss"].get<double>(), 1e-5);
  }
}

TEST_F(DetectionRuns, LossFallsAndResultsAreLeft) {
  const auto ran = train(2, "out", {"train.epochs=14", "train.eval_every=14", "task.contact_sheet=4"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto left = json_of("out/result.json");
  const auto falling = losses("out");
  EXPECT_LT(falling.back(), 0.7 * falling.front());
  for (const auto* key : {"hmean", "precision", "recall", "eval_loss", "params_sha256"})
    EXPECT_TRUE(left.contains(key)) << key;
  EXPECT_TRUE(fs::exists(root() / "out/pictures" / fmt::format("words_step_{}.png", left["steps"].get<int>())));

  const auto folder = root() / "found";
  auto words = command("predict", {});
  words.insert(words.end(), {"--weights", (root() / "out/model.safetensors").string(), "--images",
                             (root() / "test/images").string(), "--out", folder.string()});
  const auto predicted = run(2, words);
  ASSERT_TRUE(predicted.status.ok()) << predicted.err;
  std::istringstream lines(read_file(folder / "det_results.txt"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto tab = line.find('\t');
    EXPECT_EQ(line.substr(0, tab), fmt::format("img_{}.png", count));
    for (const auto& polygon : nlohmann::json::parse(line.substr(tab + 1))) EXPECT_EQ(polygon.size(), 4U);
    EXPECT_TRUE(fs::exists(folder / fmt::format("img_{}_words.png", count)));
  }
  EXPECT_EQ(count, 7);
}

TEST_F(DetectionRuns, ThoroughTheConfigurationForFewPicturesTrainsAsItIs) {
  const Words words = {LOCKSTEP_BINARY,
                       "train",
                       "--config",
                       std::string(LOCKSTEP_SOURCE_DIR) + "/configs/det/dbnet/db_r18_few_pictures.yaml",
                       "data.root=" + root().string(),
                       "system.work_dir=" + (root() / "few").string(),
                       "train.epochs=1"};
  const auto ran = under_lockstep_run(2, words);
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto left = json_of("few/result.json");
  EXPECT_EQ(left["steps"], 3);
  EXPECT_EQ(left["eval_samples"], 24) << "it is evaluated on what it has learnt";
  EXPECT_TRUE(left.contains("hmean"));
}

// Random crops, hard negatives and batch norms of each rank's own.
TEST_F(DetectionRuns, ThoroughAKilledRunEndsWithTheSameHash) {
  const Words keys = {"train.steps=8", "checkpoint.every_steps=3", "checkpoint.every_epochs=0", "data.eval=null"};
  const Environment killed = {{"LOCKSTEP_FAULT", "rank=0,step=5,action=kill"}};
  const auto hash_of = [&](const std::string& name) { return json_of(name + "/result.json")["params_sha256"]; };
  const auto whole = train(1, "whole", keys);
  ASSERT_TRUE(whole.status.ok()) << whole.err;
  EXPECT_FALSE(train(1, "killed", keys, killed).status.ok());
  EXPECT_FALSE(fs::exists(root() / "killed/result.json"));
  const auto resumed = train(1, "killed", keys);
  ASSERT_TRUE(resumed.status.ok()) << resumed.err;
  EXPECT_THAT(read_file(root() / "killed/log/rank.0"), HasSubstr("step_00000003"));
  EXPECT_EQ(hash_of("killed"), hash_of("whole"));
  EXPECT_EQ(losses("killed"), losses("whole"));

  // Of several ranks, the lost one is replaced.
  const auto two = train(2, "two", keys);
  ASSERT_TRUE(two.status.ok()) << two.err;
  const auto replaced = train(2, "replaced", keys, {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill"}});
  ASSERT_TRUE(replaced.status.ok()) << replaced.err;
  EXPECT_THAT(replaced.err, HasSubstr("the others keep running"));
  EXPECT_EQ(hash_of("replaced"), hash_of("two"));
}

TEST_F(DetectionRuns, AClassifiersWeightsAreWhereABackboneBegins) {
  const Words keys = {"train.steps=1", "data.eval=null", "checkpoint.every_epochs=0"};
  const Words classifier = {"train",
                            "--config",
                            std::string(LOCKSTEP_SOURCE_DIR) + "/configs/resnet18_cifar10.yaml",
                            "system.work_dir=" + (root() / "classifier").string(),
                            "data.root=" + (root() / "cifar10").string(),
                            "train.epochs=~",
                            "train.steps=1",
                            "data.batch_size=4"};
  ASSERT_TRUE(lockstep({"data", "synthesize", "cifar10", "--out", (root() / "cifar10").string(), "--train", "16",
                        "--test", "4"})
                  .status.ok());
  const auto trained = lockstep(classifier);
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  auto with = keys;
  with.push_back("model.backbone_weights=" + (root() / "classifier/model.safetensors").string());
  const auto begun = train(2, "begun", with);
  ASSERT_TRUE(begun.status.ok()) << begun.err;
  EXPECT_THAT(read_file(root() / "begun/log/rank.0"), HasSubstr("the backbone begins with the weights in"));
}

TEST_F(DetectionRuns, PicturesThatCannotBeReadAreCountedAlikeOnAllRanks) {
  const auto good = read_file(root() / "train/images/img_3.png");
  write_bytes(root() / "train/images/img_3.png", good.substr(0, good.size() / 2));
  fs::remove(root() / "train/images/img_5.png");
  write_bytes(root() / "train_det_gt.txt", read_file(root() / "train_det_gt.txt") + "img_1.png\t[{}]\n");
  const auto ran = train(2, "out", {"train.epochs=1", "data.on_error=skip", "data.eval=null"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  for (const auto* log : {"out/log/rank.0", "out/log/rank.1"}) {
    const auto text = read_file(root() / log);
    EXPECT_THAT(text, HasSubstr("train_det_gt.txt:25")) << log;
    EXPECT_THAT(text, HasSubstr("1 of 25 labels of")) << log;
    EXPECT_THAT(text, HasSubstr("2 of 24")) << text;
  }
}

TEST_F(DetectionRuns, MistakesAreNamedByFileAndLine) {
  const auto good = read_file(root() / "train_det_gt.txt");
  write_bytes(root() / "train_det_gt.txt", good + "gone.png\t[]\n");
  const Words keys = {"train.epochs=1", "data.global_batch_size=25"};
  const auto missing = train(2, "missing", keys);
  EXPECT_FALSE(missing.status.ok());
  EXPECT_THAT(missing.err, HasSubstr("gone.png"));
  EXPECT_THAT(missing.err, HasSubstr("train_det_gt.txt:25"));

  write_bytes(root() / "train_det_gt.txt",
              good + "img_1.png\t[{\"transcription\": \"a\", \"points\": [[0,0],[9,9]]}]\n");
  const auto two_points = train(1, "two_points", keys);
  EXPECT_FALSE(two_points.status.ok());
  EXPECT_THAT(two_points.err, HasSubstr("train_det_gt.txt:25"));
  EXPECT_THAT(two_points.err, HasSubstr("2 corners"));

  write_bytes(root() / "train_det_gt.txt", good);
  const auto no_map = lockstep(command(
      "train", {"train.steps=1", "data.train_transforms=[text_random_crop: {size: 96}, hwc2chw, rescale: {scale: 1}]",
                "system.work_dir=" + (root() / "no_map").string()}));
  EXPECT_FALSE(no_map.status.ok());
  EXPECT_THAT(no_map.err, HasSubstr("text_shrink_map"));
}

}  // namespace
}  // namespace lockstep::test
