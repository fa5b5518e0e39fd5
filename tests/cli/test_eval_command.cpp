// `lockstep eval`: the numbers that training measured at its end, on any number of ranks.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(lockstep({"train", "--list", "modles"}).err, HasSubstr("models, data or tasks"));
}

}  // namespace
}  // namespace lockstep::test
