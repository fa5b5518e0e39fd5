// `lockstep predict`: what a model says of each sample, the same on any number of ranks.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sstream>

namespace lockstep::test {
namespace {

using testing::HasSubstr;

std::vector<nlohmann::json> predictions_in(const std::string& lines) {
  std::vector<nlohmann::json> all;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

Captured predict_on(int ranks, Words words) {
  words.insert(words.begin(), "predict");
  if (ranks == 1) return lockstep(words);
  words.insert(words.begin(), LOCKSTEP_BINARY);
  return under_lockstep_run(ranks, words);
}

TEST(PredictCommand, GivesClassAndProbabilityOfEachPicture) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  const auto file = bench.path() / "predictions.jsonl";
  const Words words = {"--config", bench.config(), "--weights", bench.work_dir() / "model.safetensors",
                       "--json",   file.string()};
  std::vector<nlohmann::json> alone;
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    std::filesystem::remove(file);
    const auto ran = predict_on(ranks, words);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    const auto predictions = predictions_in(read_file(file));
    ASSERT_EQ(predictions.size(), result["eval_samples"].get<std::size_t>());
    if (ranks == 1) alone = predictions;
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      EXPECT_EQ(predictions[i]["index"], i);
      EXPECT_EQ(predictions[i]["class"], alone[i]["class"]);
      EXPECT_NEAR(predictions[i]["probability"].get<double>(), alone[i]["probability"].get<double>(), 1e-5);
      EXPECT_GE(predictions[i]["probability"], 0.1);
      EXPECT_LE(predictions[i]["probability"], 1.0);
    }
  }
}

TEST(PredictCommand, InTheGlobalViewTheSame) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto predicted = [&](const std::string& mode) {
    const auto ran = predict_on(2, {"--config", bench.config(), "--weights", bench.work_dir() / "model.safetensors",
                                    "--json", bench.path() / mode, "parallel.mode=" + mode});
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return predictions_in(read_file(bench.path() / mode));
  };
  const auto mirrored = predicted("data_parallel"), global = predicted("semi_auto");
  ASSERT_EQ(mirrored.size(), global.size());
  for (std::size_t i = 0; i < mirrored.size(); ++i) EXPECT_EQ(mirrored[i]["class"], global[i]["class"]);
}

TEST(PredictCommand, LeavesAFolderAndALanguageModelsText) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcd";
  write_file(folder.path() / "text", text);
  const Words keys = {"--config",
                      LOCKSTEP_SOURCE_DIR "/configs/gpt_tiny_text.yaml",
                      "data.file=" + (folder.path() / "text").string(),
                      "system.work_dir=" + (folder.path() / "out").string(),
                      "data.length=16",
                      "model.context=16",
                      "model.width=32",
                      "task.sample_bytes=8"};
  Words train = {"train", "train.epochs=40", "optimizer.lr=0.01", "scheduler.warmup_steps=2",
                 "data.global_batch_size=8"};
  train.insert(train.end(), keys.begin(), keys.end());
  const auto trained = lockstep(train);
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  for (const std::string mode : {"data_parallel", "semi_auto"}) {
    Words words = keys;
    words.insert(words.end(), {"--weights", folder.path() / "out/model.safetensors", "--out", folder.path() / mode,
                               "parallel.mode=" + mode});
    const auto ran = predict_on(2, words);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    const auto predictions = predictions_in(read_file(folder.path() / mode / "predictions.jsonl"));
    ASSERT_GT(predictions.size(), 1U);
    // Windows of 16 letters begin with an a, and what comes after them is known.
    for (const auto& each : predictions) EXPECT_EQ(each["text"], "abcdabcd");
    EXPECT_TRUE(std::filesystem::exists(folder.path() / mode / "predictions.safetensors"));
  }
}

TEST(PredictCommand, SaysWhatIsMissing) {
  const Workbench bench;
  for (const auto& [words, answer] :
       {std::pair{Words{}, "--config FILE is missing"},
        {Words{"--config", bench.config()}, "--weights FILE is missing"},
        {Words{"--config", bench.config(), "--weights", "/no.safetensors"}, "/no.safetensors"}}) {
    const auto ran = predict_on(1, words);
    EXPECT_EQ(ran.status.code, 2) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(answer));
  }
}

}  // namespace
}  // namespace lockstep::test
