// Whole runs of DBNet from YAML: the same numbers on any number of ranks, learning, what is left, mistakes of users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <png.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"
#include "data/files/picture_files.h"
#include "ocr/detection/text_pictures.h"
#include "ocr/recognition/word_files.h"

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

/// One character from U+0800 on.
std::string utf8_of(int character) {
  return {static_cast<char>(0xe0 | character >> 12), static_cast<char>(0x80 | (character >> 6 & 0x3f)),
          static_cast<char>(0x80 | (character & 0x3f))};
}

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

/// Pixels of a PNG, red, green and blue.
std::vector<std::uint8_t> pixels_of(const fs::path& file, int& width, int& height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&image, file.c_str()), 0) << file;
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0) << file;
  width = static_cast<int>(image.width);
  height = static_cast<int>(image.height);
  return pixels;
}

/// Photographs for predictions: two of LOCKSTEP_TEST_DATA, or made ones without it.
fs::path photographs(const fs::path& root) {
  const char* data = std::getenv("LOCKSTEP_TEST_DATA");
  const auto folder = root / "photographs";
  fs::create_directories(folder);
  const auto real = data == nullptr ? fs::path() : fs::path(data) / "icdar2015_sample/detection/test/images";
  for (const auto* name : {"img_21.jpg", "img_83.jpg"}) {
    if (fs::exists(real / name)) fs::copy(real / name, folder / name);
  }
  if (fs::is_empty(folder)) fs::copy(root / "test/images/img_0.png", folder / "img_0.png");
  return folder;
}

TEST_F(DetectionRuns, WordsAreFoundAndReadInOneCommand) {
  // A detector of a few steps finds something by low thresholds; what it is does not matter here.
  const auto found = train(1, "detector", {"train.steps=6", "data.eval=null", "checkpoint.every_epochs=0"});
  ASSERT_TRUE(found.status.ok()) << found.err;
  write_words(root() / "train_rec_gt.txt", root() / "train/words", made_words(16, 1));
  const auto reader_config = std::string(LOCKSTEP_SOURCE_DIR) + "/configs/rec/crnn/crnn_vgg7.yaml";
  const auto read =
      lockstep({"train", "--config", reader_config, "data.root=" + root().string(), "data.train_images=train/words",
                "data.eval=[]", "data.batch_size=8", "train.epochs=~", "train.steps=1", "callbacks.use=[]",
                "checkpoint.every_epochs=0", "system.work_dir=" + (root() / "reader").string()});
  ASSERT_TRUE(read.status.ok()) << read.err;

  const auto pictures = photographs(root());
  auto words =
      command("predict", {"task.map_threshold=0.05", "task.box_threshold=0.05", "task.read_config=" + reader_config,
                          "task.read_weights=" + (root() / "reader/model.safetensors").string()});
  words.insert(words.end(), {"--weights", (root() / "detector/model.safetensors").string(), "--images",
                             pictures.string(), "--out", (root() / "read").string()});
  const auto ran = lockstep(words);
  ASSERT_TRUE(ran.status.ok()) << ran.err;

  std::istringstream lines(read_file(root() / "read/system_results.txt"));
  std::size_t texts = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto tab = line.find('\t');
    const auto name = line.substr(0, tab);
    const auto list = nlohmann::json::parse(line.substr(tab + 1));
    for (const auto& word : list) {
      EXPECT_TRUE(word.contains("transcription")) << word;
      ++texts;
    }
    // The picture is the photograph with green outlines: the edges of all words have that colour.
    int width = 0, height = 0;
    const auto pixels = pixels_of(root() / "read" / (fs::path(name).stem().string() + "_words.png"), width, height);
    if (name.ends_with(".jpg")) {
      EXPECT_EQ(std::pair(width, height), std::pair(1280, 720));
    }
    std::size_t green = 0, corners = 0;
    for (const auto& word : list) {
      for (const auto& point : word["points"]) {
        const auto at =
            3 * (point[1].get<std::size_t>() * static_cast<std::size_t>(width) + point[0].get<std::size_t>());
        green += pixels[at] < 80 && pixels[at + 1] > 200 && pixels[at + 2] < 80 ? 1 : 0;
        ++corners;
      }
    }
    EXPECT_GE(2 * green, corners) << name;  // texts may cover corners
  }
  EXPECT_GT(texts, 0U) << "nothing was found";
}

/// A configuration of MindOCR, for two steps on made pictures.
Words keys_for_two_steps(const fs::path& root, bool detects) {
  Words keys = {"data.root=" + root.string(),
                "data.batch_size=1",
                "data.eval_batch_size=1",
                "data.workers=0",
                "train.epochs=~",
                "train.steps=2",
                "train.eval_every=0",
                "callbacks.use=[]",
                "checkpoint.every_epochs=0",
                "scheduler.warmup_epochs=0",
                "model.autocast=none",
                "loss_scaler.type=none"};
  const Words more = detects ? Words{"data.train=train_det_gt.txt", "data.train_pictures=train/images",
                                     "data.eval=one_det_gt.txt", "data.eval_pictures=test/images"}
                             : Words{"data.train=[train_rec_gt.txt]", "data.train_images=train/words", "data.eval=[]"};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// With the networks and the transforms of the files: only data, steps, sizes and what is beside them are others.
TEST_F(DetectionRuns, ThoroughEachConfigurationOfMindocrRunsTwoSteps) {
  write_words(root() / "train_rec_gt.txt", root() / "train/words", made_words(8, 1));
  const auto labels = read_file(root() / "test_det_gt.txt");
  write_bytes(root() / "one_det_gt.txt", labels.substr(0, labels.find('\n') + 1));
  for (const bool detects : {true, false}) {
    const auto folder = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/ocr/mindocr/files" / (detects ? "det" : "rec");
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto name = entry.path().stem().string();
      SCOPED_TRACE(name);
      const auto ours = (root() / (name + ".yaml")).string();
      const auto converted = lockstep({"convert", "mindocr", entry.path().string(), "--out", ours});
      ASSERT_TRUE(converted.status.ok()) << converted.err;
      auto words = keys_for_two_steps(root(), detects);
      auto text = read_file(ours);
      if (detects) {  // sides of crops and evaluations, a quarter as long: those of ResNet-50 take minutes
        for (const auto& [side, smaller] :
             {std::pair("640", "160"), std::pair("736", "192"), std::pair("1280", "320"), std::pair("1152", "288"),
              std::pair("2048", "512"), std::pair("1024", "256"), std::pair("800", "192")}) {
          text = std::regex_replace(text, std::regex("\\b" + std::string(side) + "\\b"), smaller);
        }
        write_bytes(ours, text);
      }
      if (text.find("6624") != std::string::npos || text.find("\n  num_classes: 96") != std::string::npos) {
        std::string characters = "abcd";
        const int count = text.find("6624") != std::string::npos ? 6623 : 94;  // and a blank
        for (int i = 4; i < count; ++i) characters += "\n" + utf8_of(0x4e00 + i);
        characters.replace(0, 4, "a\nb\nc\nd");
        write_bytes(root() / "dict.txt", characters + "\n");
        words.push_back("data.dictionary=" + (root() / "dict.txt").string());
        words.push_back("task.dictionary=" + (root() / "dict.txt").string());
      }
      words.insert(words.begin(), {"train", "--config", ours});
      words.push_back("system.work_dir=" + (root() / "out" / name).string());
      const auto ran = lockstep(words);
      ASSERT_TRUE(ran.status.ok()) << ran.err;
      EXPECT_EQ(json_of("out/" + name + "/result.json")["steps"], 2);
    }
  }
}

TEST_F(DetectionRuns, AnotherModelOfMindocrEndsTheConversionWithItsName) {
  write_bytes(root() / "pse.yaml",
              "model: {type: det, backbone: {name: det_resnet50}, neck: {name: PSEFPN}, head: {name: PSEHead}}\n");
  const auto ran = lockstep({"convert", "mindocr", (root() / "pse.yaml").string(), "--out", (root() / "x").string()});
  EXPECT_EQ(ran.status.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("PSENet"));
  EXPECT_FALSE(fs::exists(root() / "x"));
}

TEST_F(DetectionRuns, WhatIsLeftOutIsSaidOnTheConsole) {
  write_bytes(root() / "train_det_gt.txt", read_file(root() / "train_det_gt.txt") + "img_1.png\t[{}]\n");
  const auto ran = train(1, "out", {"train.steps=1", "data.on_error=skip", "data.eval=null"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out + ran.err, HasSubstr("1 of 25 labels of"));
}

}  // namespace
}  // namespace lockstep::test
