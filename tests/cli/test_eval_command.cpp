// `lockstep eval`: the numbers that training measured at its end, on any number of ranks.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::HasSubstr;

nlohmann::json json_of(const std::filesystem::path& file) {
  return nlohmann::json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
}

TEST(EvalCommand, MeasuresWhatTrainingMeasured) {
  const Workbench bench;
  const auto trained = run_program(bench.train());
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  const auto result = json_of(bench.work_dir() / "result.json");
  const auto out = bench.path() / "metrics.json";
  const Words words = {"eval",
                       "--config",
                       bench.config(),
                       "--weights",
                       bench.work_dir() / "model.safetensors",
                       "--json",
                       out.string(),
                       "system.work_dir=" + (bench.path() / "none").string()};
  Words ranks = {LOCKSTEP_BINARY};
  ranks.insert(ranks.end(), words.begin(), words.end());
  for (const int number : {1, 2, 3}) {
    std::filesystem::remove(out);
    const auto ran = number == 1 ? lockstep(words) : under_lockstep_run(number, ranks);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    const auto measured = json_of(out);
    EXPECT_EQ(measured["eval_accuracy"], result["eval_accuracy"]);
    EXPECT_NEAR(measured["eval_loss"].get<double>(), result["eval_loss"].get<double>(), 1e-6);
    EXPECT_EQ(measured["eval_samples"], result["eval_samples"]);
    EXPECT_THAT(ran.out, HasSubstr("accuracy "));
  }
  EXPECT_FALSE(std::filesystem::exists(bench.path() / "none"));
}

TEST(EvalCommand, TakesTheCheckpointsThatBestCheckpointsLeaves) {
  const Workbench bench;
  const auto trained =
      run_program(bench.train({"train.epochs=3", "callbacks.use=[best_checkpoints: {metric: loss, keep: 2}]"}));
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  const auto best = bench.work_dir() / "best";
  const auto result = json_of(bench.work_dir() / "result.json");
  nlohmann::json lowest;
  for (const auto& each : result["evaluations"]) {
    if (lowest.is_null() || each["loss"] < lowest["loss"]) lowest = each;
  }
  const auto checkpoint = best / fmt::format("step_{:08}.sharded", lowest["step"].get<std::int64_t>());
  const auto out = bench.path() / "metrics.json";
  const auto eval = [&](const std::filesystem::path& weights) {
    return Words{"eval", "--config", bench.config(), "--weights", weights.string(), "--json", out.string()};
  };
  for (const auto& weights : {best, checkpoint}) {
    for (const int ranks : {1, 2}) {
      std::filesystem::remove(out);
      Words words = {LOCKSTEP_BINARY};
      for (const auto& word : eval(weights)) words.push_back(word);
      const auto ran = ranks == 1 ? lockstep(eval(weights)) : under_lockstep_run(ranks, words);
      ASSERT_TRUE(ran.status.ok()) << ran.err;
      EXPECT_NEAR(json_of(out)["eval_loss"].get<double>(), lowest["loss"].get<double>(), 1e-6);
      EXPECT_EQ(json_of(out)["eval_accuracy"], lowest["accuracy"]);
    }
  }
  // The run's configuration counts, and the log says which checkpoint it is.
  const auto without = lockstep({"eval", "--weights", best.string() + "/", "--json", out.string()});
  ASSERT_TRUE(without.status.ok()) << without.err;
  EXPECT_EQ(json_of(out)["eval_accuracy"], lowest["accuracy"]);
  EXPECT_THAT(without.err, HasSubstr("of the 2 checkpoints in " + best.string()));
  // Several, none, and a damaged one.
  const auto several = lockstep(eval(bench.work_dir() / "checkpoints"));
  EXPECT_EQ(several.status.code, 2) << several.err;
  EXPECT_THAT(several.err,
              testing::AllOf(HasSubstr("checkpoints in this folder; give one of them"), HasSubstr("step_")));
  std::filesystem::create_directory(bench.path() / "empty");
  EXPECT_THAT(lockstep(eval(bench.path() / "empty")).err, HasSubstr((bench.path() / "empty").string()));
  std::filesystem::remove(checkpoint / "index.json");
  const auto damaged = lockstep(eval(best));
  EXPECT_NE(damaged.status.code, 0);
  EXPECT_THAT(damaged.err, HasSubstr(checkpoint.string()));
}

// Evaluations of a run with ema are of the average, so that is what the best checkpoint was chosen by.
TEST(EvalCommand, MeasuresTheAverageOfACheckpoint) {
  const Workbench bench;
  const auto trained = run_program(
      bench.train({"train.epochs=2", "callbacks.use=[ema: {decay: 0.7}, best_checkpoints: {metric: loss, keep: 9}]"}));
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  const auto last = json_of(bench.work_dir() / "result.json")["evaluations"].back();
  const auto checkpoint =
      bench.work_dir() / "best" / fmt::format("step_{:08}.sharded", last["step"].get<std::int64_t>());
  const auto out = bench.path() / "metrics.json";
  const auto loss = [&](int ranks, Words more) {
    std::filesystem::remove(out);
    Words words{"eval", "--config", bench.config(), "--json", out.string()};
    words.insert(words.end(), more.begin(), more.end());
    if (ranks > 1) words.insert(words.begin(), LOCKSTEP_BINARY);
    const auto ran = ranks > 1 ? under_lockstep_run(ranks, words) : lockstep(words);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return ran.status.ok() ? json_of(out)["eval_loss"].get<double>() : 0;
  };
  for (const int ranks : {1, 2}) {
    EXPECT_NEAR(loss(ranks, {"--average", "--weights", checkpoint}), last["loss"].get<double>(), 1e-6);
  }
  EXPECT_NEAR(loss(1, {"--weights", bench.work_dir() / "ema.safetensors"}), last["loss"].get<double>(), 1e-6);
  const double of_weights = loss(1, {"--weights", checkpoint});
  EXPECT_GT(std::abs(of_weights - last["loss"].get<double>()), 1e-4);
  EXPECT_NEAR(of_weights, loss(1, {"--weights", bench.work_dir() / "model.safetensors"}), 1e-6);
  // The run's own configuration names its callbacks, which have no part in an evaluation with other metrics.
  const auto own = bench.work_dir() / "config.yaml";
  const auto with_own = lockstep({"eval", "--config", own, "--weights", checkpoint, "--average", "metrics=[f1]"});
  EXPECT_TRUE(with_own.status.ok()) << with_own.err;
  EXPECT_THAT(with_own.out, testing::AllOf(HasSubstr("f1 "), HasSubstr(" with the average of the weights (ema) ")));
  const auto predicted = lockstep({"predict", "--config", bench.config(), "--weights", checkpoint, "--average"});
  EXPECT_TRUE(predicted.status.ok()) << predicted.err;

  const auto file =
      lockstep({"eval", "--config", bench.config(), "--average", "--weights", bench.work_dir() / "ema.safetensors"});
  EXPECT_EQ(file.status.code, 2);
  EXPECT_THAT(file.err,
              testing::AllOf(HasSubstr("--average"), HasSubstr("ema.safetensors"), HasSubstr("leave that out")));
  const Workbench plain;
  ASSERT_TRUE(run_program(plain.train()).status.ok());
  const auto saved = std::filesystem::directory_iterator(plain.work_dir() / "checkpoints")->path();
  const auto none = lockstep({"eval", "--config", plain.config(), "--average", "--weights", saved});
  EXPECT_EQ(none.status.code, 2);
  EXPECT_THAT(none.err, testing::AllOf(HasSubstr("has no average"), HasSubstr("callbacks.use")));
}

TEST(EvalCommand, TakesAMergedCheckpointAndRulesForNames) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto trained = json_of(bench.work_dir() / "result.json")["eval_accuracy"];
  const auto merged = bench.path() / "merged.safetensors", out = bench.path() / "metrics.json";
  const auto saved = std::filesystem::directory_iterator(bench.work_dir() / "checkpoints")->path();
  const auto ran = lockstep({"checkpoint", "merge", saved.string(), "--out", merged.string()});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto accuracy = [&](const std::filesystem::path& config, const std::filesystem::path& weights,
                            const Words& more) -> nlohmann::json {
    std::filesystem::remove(out);
    Words words{"eval", "--config", config.string(), "--weights", weights.string(), "--json", out.string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto measured = lockstep(words);
    EXPECT_TRUE(measured.status.ok()) << measured.err;
    return measured.status.ok() ? json_of(out)["eval_accuracy"] : nlohmann::json();
  };
  EXPECT_EQ(accuracy(bench.config(), merged, {}), trained);
  // The rules are about the file of --weights, whether in the configuration or on the command line.
  const auto other = bench.path() / "other.yaml";
  write_file(other, "base: " + bench.config() + "\nmodel: {weights_prefix: fc}\n");
  const auto prefixed = lockstep({"eval", "--config", other, "--weights", merged.string()});
  EXPECT_EQ(prefixed.status.code, 2) << "the rule of the configuration is about this file";
  const auto wrong = lockstep(
      {"eval", "--config", other, "--weights", bench.work_dir() / "model.safetensors", "model.weights_prefix=module."});
  EXPECT_EQ(wrong.status.code, 2);
  EXPECT_THAT(wrong.err,
              testing::AllOf(HasSubstr("model.weights_prefix is 'module.'"), HasSubstr("no name in the file")));
  EXPECT_EQ(accuracy(bench.config(), merged, {"model.weights_rename={\"*.weight\": \"*.weight\"}"}), trained);
  // But those in a configuration with weights of its own are about these: nothing is left out of the trained ones.
  for (const auto* model : {"model: {weights: /begun/from.pth, weights_except: [\"*\"], weights_rename: {x.: y.}}\n",
                            "model: {weights: /begun/from.pth, weights_prefix: module., weights_average: true}\n",
                            "load_from: /begun/from.pth\nmodel: {weights_except: [\"*\"]}\n"}) {
    write_file(other, "base: " + bench.config() + "\n" + model);
    EXPECT_EQ(accuracy(other, bench.work_dir() / "model.safetensors", {}), trained) << model;
  }
  // A damaged one.
  auto bytes = read_file(merged);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(merged, bytes);
  const auto damaged = lockstep({"eval", "--config", bench.config(), "--weights", merged.string()});
  EXPECT_FALSE(damaged.status.ok());
  EXPECT_THAT(damaged.err, HasSubstr("the file is damaged"));
}

/// The folder of a run stands for its weights and its configuration.
TEST(EvalCommand, TakesTheFolderOfARun) {
  const Workbench bench;
  const auto trained = run_program(bench.train());
  ASSERT_TRUE(trained.status.ok()) << trained.err;
  const auto accuracy = json_of(bench.work_dir() / "result.json")["eval_accuracy"];
  const auto out = bench.path() / "metrics.json";
  const auto measure = [&] {
    std::filesystem::remove(out);
    const auto ran = lockstep({"eval", "--weights", bench.work_dir(), "--json", out});
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    EXPECT_EQ(json_of(out)["eval_accuracy"], accuracy);
    return ran.out + ran.err;
  };
  EXPECT_THAT(measure(), HasSubstr("model.safetensors"));
  const auto shown = lockstep({"checkpoint", "inspect", bench.work_dir()});
  EXPECT_TRUE(shown.status.ok()) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("checkpoint of a run: 4 steps done"));
  std::filesystem::remove(bench.work_dir() / "model.safetensors");
  EXPECT_THAT(measure(), HasSubstr("step_00000004.sharded"));
}

TEST(EvalCommand, SaysWhatIsMissing) {
  const Workbench bench;
  for (const auto& [words, answer] : {std::pair{Words{"eval"}, "--config FILE is missing"},
                                      {Words{"eval", "--config", bench.config()}, "--weights FILE is missing"},
                                      {Words{"eval", "--config", bench.config(), "--weights", "/no.pth"}, "/no.pth"}}) {
    const auto ran = lockstep(words);
    EXPECT_EQ(ran.status.code, 2) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(answer));
  }
}

TEST(EvalCommand, ListsWhatAKeyCanName) {
  EXPECT_THAT(lockstep({"train", "--list", "models"}).out, testing::AllOf(HasSubstr("resnet50"), HasSubstr("gpt")));
  EXPECT_THAT(lockstep({"train", "--list", "data"}).out, testing::AllOf(HasSubstr("cifar10"), HasSubstr("text")));
  EXPECT_THAT(lockstep({"train", "--list", "tasks"}).out, HasSubstr("language_modelling"));
  EXPECT_THAT(lockstep({"train", "--list", "modles"}).err,
              testing::AllOf(HasSubstr("models, tasks, losses"), HasSubstr("did you mean 'models'")));
}

}  // namespace
}  // namespace lockstep::test
