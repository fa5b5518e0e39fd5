// Programs with a main function of their own around lockstep::Trainer (examples/own_trainer.cpp and the translations of
// other frameworks' programs).
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::HasSubstr;

class TrainerProgram : public testing::Test {
 protected:
  std::filesystem::path folder(const std::string& name) const { return folder_.path() / name; }

  Words program(const std::string& name, Words more = {}) const {
    Words words = {std::string(LOCKSTEP_EXAMPLES) + "/own_trainer", "system.work_dir=" + folder(name).string(),
                   "data.global_batch_size=20"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  nlohmann::json result(const std::string& name) const {
    return nlohmann::json::parse(read_file(folder(name) / "result.json"), nullptr, /*allow_exceptions=*/false);
  }

  std::string hash_of(int ranks, const std::string& name, const Environment& environment = {}) const {
    const auto ran = under_lockstep_run(ranks, program(name), environment);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return result(name)["params_sha256"];
  }

  TemporaryFolder folder_;
};

TEST_F(TrainerProgram, TrainsMeasuresAndPredicts) {
  const auto alone = run_program(program("alone"));
  ASSERT_TRUE(alone.status.ok()) << alone.err;
  // The function to be learnt is x1 - 2 x2 + x3 / 2 + 3.
  EXPECT_THAT(alone.out, testing::ContainsRegex("f\\(1, 1, 1\\) = 2\\.[3-6]"));
  EXPECT_EQ(result("alone")["model"], "regression");
  EXPECT_LT(result("alone")["eval_loss"].get<double>(), 0.01);
  const auto both = under_lockstep_run(2, program("both"));
  ASSERT_TRUE(both.status.ok()) << both.err;
  EXPECT_THAT(both.out, HasSubstr("f(1, 1, 1) = 2."));
  EXPECT_NEAR(result("both")["eval_loss"].get<double>(), result("alone")["eval_loss"].get<double>(), 1e-5);
}

TEST_F(TrainerProgram, GoesOnAfterASignalAndAfterALoss) {
  const auto hash = hash_of(2, "undisturbed");
  const auto stopped = under_lockstep_run(2, program("stopped"), {{"LOCKSTEP_FAULT", "rank=1,step=120,action=term"}});
  EXPECT_EQ(stopped.status.code, 75) << stopped.err;
  EXPECT_EQ(hash_of(2, "stopped"), hash);
  EXPECT_EQ(hash_of(2, "lost", {{"LOCKSTEP_FAULT", "rank=1,step=120,action=kill"}}), hash);
}

TEST_F(TrainerProgram, StartsTheRanksOfItsNode) {
  const auto hash = hash_of(2, "launched");
  const auto ran = run_program(program("by_itself", {"parallel.devices_per_node=2"}));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(result("by_itself")["params_sha256"], hash);
  EXPECT_EQ(result("by_itself")["world_size"], 2);
}

TEST_F(TrainerProgram, UnderMpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  const auto hash = hash_of(2, "launched");
  const auto ran = under_mpirun(2, program("mpirun"));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(result("mpirun")["params_sha256"], hash);
}

TEST_F(TrainerProgram, AModuleThatIsThereIsForDataParallel) {
  for (const std::string mode : {"semi_auto", "auto"}) {
    const auto ran = under_lockstep_run(2, program("module", {"parallel.mode=" + mode}));
    EXPECT_FALSE(ran.status.ok());
    EXPECT_THAT(ran.err + ran.out, HasSubstr("give the program a function in place of a module"));
  }
}

/// tests/cli/configured_program.cpp
class TrainerProgramInCode : public TrainerProgram {
 protected:
  Captured run(int ranks, const std::string& name, const std::string& out = "out", const std::string& file = "") const {
    const Words words = {LOCKSTEP_CONFIGURED_PROGRAM, name, folder(out).string(), file};
    return ranks == 1 ? run_program(words) : under_lockstep_run(ranks, words);
  }
};

TEST_F(TrainerProgramInCode, ItsValuesAreCheckedLikeThoseOfAFile) {
  for (const auto& [name, reasons] :
       {std::pair{"no_rate", Words{"optimizer.lr is missing; it must be given"}},
        {"wrong_mode", {"2 mistakes", "parallel.mode: ", "did you mean 'data_parallel'?", "train.accumulate: "}},
        {"wrong_betas", {"optimizer.betas[1]: "}},
        {"other_options", {"scheduler.name", "cosine has the options none", "step_size, gamma, unit"}},
        {"later_name", {"optimizer.name", "is adam", "options of adamw"}},
        {"unused_loss", {"loss.label_smoothing", "is 0.3 and has no effect"}},
        {"unused_transforms", {"data.train_transforms", "has no effect"}},
        {"two_optimizers", {"optimizer.weight_decay", "is 0.5 and has no effect"}},
        {"foreign_optimizer", {"not among the parameters"}},
        {"wrong_options", {"adam has the options betas, eps", "momentum, nesterov, dampening"}}}) {
    const auto ran = run(1, name);
    EXPECT_NE(ran.status.code, 0) << name;
    for (const auto& reason : reasons) EXPECT_THAT(ran.err, HasSubstr(reason)) << name;
    EXPECT_FALSE(std::filesystem::exists(folder("out"))) << name;
  }
  EXPECT_THAT(run(1, "evaluates").out, HasSubstr("loss "));  // needs no rate and no length
  EXPECT_TRUE(run(1, "nothing_watches").status.ok());
  for (const auto& [word, answer] : {std::pair{"optimizer.weight_decay=0.5", "has no effect"},
                                     {"program.width=3", "does not read the section program"}}) {
    EXPECT_THAT(run_program(program("keys", {word})).err, HasSubstr(answer)) << word;
  }
}

TEST_F(TrainerProgramInCode, AWrapperSetsItsKeys) {
  const auto ran = run(2, "wrapped");
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(read_file(folder("out") / "config.yaml"), HasSubstr("mode: semi_auto"));
}

TEST_F(TrainerProgramInCode, ItsConfigurationIsWrittenAsItIs) {
  ASSERT_TRUE(
      lockstep({"data", "synthesize", "mnist", "--out", folder("data").string(), "--train", "32", "--test", "8"})
          .status.ok());
  const auto ran = run(1, "names", "names", folder("data").string());
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto eval = lockstep({"eval", "--weights", folder("names").string()});
  EXPECT_TRUE(eval.status.ok()) << eval.err;

  ASSERT_TRUE(run(1, "own_optimizer").status.ok());
  EXPECT_THAT(read_file(folder("out") / "config.yaml"),
              testing::AllOf(HasSubstr("name: adamw"), HasSubstr("weight_decay: 0.05"), HasSubstr("betas: [0.8, 0.9]"),
                             HasSubstr("lr: 0.01")));
  const auto other = run(1, "other_optimizer");  // goes on with other settings
  EXPECT_NE(other.status.code, 0);
  EXPECT_THAT(other.err, HasSubstr("optimizer.betas: [0.8, 0.9] -> [0.7, 0.9]"));
}

class OtherFrameworks : public TrainerProgram {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        lockstep({"data", "synthesize", "cifar10", "--out", folder("data").string(), "--train", "50", "--test", "2"})
            .status.ok());
  }
};

TEST_F(OtherFrameworks, MMEnginesProgram) {
  const auto ran = under_lockstep_run(
      2, {std::string(LOCKSTEP_EXAMPLES) + "/mmengine_cifar10", "data.root=" + folder("data").string(),
          "system.work_dir=" + folder("mmengine").string(), "data.batch_size=4", "train.epochs=1"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(result("mmengine")["steps"], 6);  // of 8 pictures; the last two are left out
  EXPECT_EQ(result("mmengine")["eval_samples"], 2);
  EXPECT_TRUE(result("mmengine").contains("eval_accuracy"));
}

// The command line of the tutorials, and mistakes in it.
TEST_F(OtherFrameworks, TheirProgramsTakeTheirCommandLine) {
  const std::string program = LOCKSTEP_EXAMPLES "/mmengine_cifar10";
  const auto launched = lockstep({"launch", "--nproc_per_node=2", program, "--launcher", "pytorch",
                                  "data.root=" + folder("data").string(), "--dry-run"});
  ASSERT_TRUE(launched.status.ok()) << launched.err;
  EXPECT_THAT(launched.out, HasSubstr("MMResNet50"));
  for (const std::string& one : {program, std::string(LOCKSTEP_EXAMPLES "/mindspore_resnet50")}) {
    EXPECT_THAT(run_program({one, "--help"}).out, HasSubstr("--launcher"));
    const auto missing = run_program({one, "data.root=/nonexistent"});
    EXPECT_EQ(missing.status.signal, 0) << "an error is no abort";
    EXPECT_FALSE(missing.status.ok());
    EXPECT_THAT(missing.err, HasSubstr("error: ")) << missing.err;
    EXPECT_THAT(run_program({one, "--seed=3"}).err, HasSubstr("'system.seed'"));
  }
}

TEST_F(OtherFrameworks, MindSporesProgram) {
  const Words words = {std::string(LOCKSTEP_EXAMPLES) + "/mindspore_resnet50",
                       "system.work_dir=" + folder("mindspore").string(), "data.batch_size=2", "train.steps=1"};
  const auto ran = under_lockstep_run(2, words, {{"DATA_PATH", folder("data").string()}});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("epoch: 1 step: 1, loss is "));
  EXPECT_EQ(result("mindspore")["steps"], 1);
}

}  // namespace
}  // namespace lockstep::test
