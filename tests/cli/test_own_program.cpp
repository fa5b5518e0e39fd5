// A training program of a user's own (examples/own_model.cpp): it has what `lockstep train` has.
#include "cli/program.h"
#include "cli/replaced_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include <sstream>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Words own_model(Words more) {
  Words words = {std::string(LOCKSTEP_EXAMPLES) + "/own_model", "train.epochs=3", "data.global_batch_size=50"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

nlohmann::json own_result_in(const std::filesystem::path& work_dir) {
  return nlohmann::json::parse(read_file(work_dir / "result.json"), nullptr, /*allow_exceptions=*/false);
}

class OwnProgram : public testing::Test {
 protected:
  std::filesystem::path work_dir(const std::string& name) const { return folder_.path() / name; }

  Words named(const std::string& name, Words more = {}) const {
    more.push_back("system.work_dir=" + work_dir(name).string());
    return own_model(std::move(more));
  }

  nlohmann::json trained(int ranks, const std::string& name, Words more = {}) const {
    const auto ran = ranks == 1 ? run_program(named(name, std::move(more)))
                                : under_lockstep_run(ranks, named(name, std::move(more)));
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return own_result_in(work_dir(name));
  }

  TemporaryFolder folder_;
};

/// examples/own_tables.cpp: its tables are where the job has them.
TEST_F(OwnProgram, HasTheSameParametersWithItsTablesOnServers) {
  const auto trained_with = [&](int ranks, const std::string& name, const Words& flags, const Words& more) {
    Words words = {std::string(LOCKSTEP_EXAMPLES) + "/own_tables", "train.epochs=2",
                   "system.work_dir=" + work_dir(name).string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = run_program(ranks == 1 ? words : launched(ranks, flags, words));
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return own_result_in(work_dir(name));
  };
  const auto alone = trained_with(1, "alone", {}, {});
  EXPECT_GT(alone["accuracy"], 0.9);
  const auto hash = trained_with(2, "ranks", {}, {})["params_sha256"];
  EXPECT_EQ(trained_with(2, "tables", {"--servers", "2"}, {})["params_sha256"], hash);
  EXPECT_EQ(trained_with(2, "all", {"--servers", "2"}, {"parallel.server.parameters=[\"*\"]"})["params_sha256"], hash);
}

TEST_F(OwnProgram, MeasuresTheSameOnAnyNumberOfRanksInAnyMode) {
  const auto alone = trained(1, "alone");
  ASSERT_EQ(alone["eval_samples"], 400);
  EXPECT_EQ(alone["model"], "own");
  for (const int ranks : {2, 4}) {
    for (const std::string mode : {"data_parallel", "semi_auto", "auto"}) {
      SCOPED_TRACE(mode + " on " + std::to_string(ranks));
      const auto result = trained(ranks, mode + std::to_string(ranks), {"parallel.mode=" + mode});
      EXPECT_EQ(result["eval_samples"], 400);
      // Whole pictures of the same weights, but for the rounding of sums.
      EXPECT_NEAR(result["eval_loss"].get<double>(), alone["eval_loss"].get<double>(), 1e-5);
      EXPECT_NEAR(result["eval_within_0.1"].get<double>(), alone["eval_within_0.1"].get<double>(), 0.0026);
    }
  }
}

TEST_F(OwnProgram, ThoroughLearnsItsCurves) {
  const auto result = trained(2, "learned", {"train.epochs=20"});
  EXPECT_LT(result["eval_loss"], 0.01);
  EXPECT_GT(result["eval_within_0.1"], 0.8);
}

TEST_F(OwnProgram, GoesOnWhereItWasStopped) {
  const auto hash = trained(2, "undisturbed")["params_sha256"];
  const Environment stopped = {{"LOCKSTEP_FAULT", "rank=1,step=60,action=term"}};
  const auto first = under_lockstep_run(2, named("stopped"), stopped);
  EXPECT_EQ(first.status.code, 75) << first.err;
  EXPECT_FALSE(std::filesystem::exists(work_dir("stopped") / "result.json"));
  EXPECT_EQ(trained(2, "stopped")["params_sha256"], hash);
}

TEST_F(OwnProgram, ALostRankIsReplacedInPlace) {
  const auto hash = trained(2, "undisturbed")["params_sha256"];
  const auto ran = under_lockstep_run(2, named("lost"), {{"LOCKSTEP_FAULT", "rank=1,step=60,action=kill"}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("the others keep running"));
  EXPECT_EQ(own_result_in(work_dir("lost"))["params_sha256"], hash);
}

TEST_F(OwnProgram, IsStartedByMpirunAndByAFile) {
  const auto hash = trained(2, "launched")["params_sha256"];
  write_file(folder_.path() / "run.yaml", "train: {epochs: 3}\nprogram: {width: 32}\n");
  const Words words = named("by_file", {"--config", (folder_.path() / "run.yaml").string()});
  const auto by_file = under_lockstep_run(2, words);
  ASSERT_TRUE(by_file.status.ok()) << by_file.err;
  EXPECT_EQ(own_result_in(work_dir("by_file"))["params_sha256"], hash);
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI: nothing was started under mpirun";
  const auto by_mpirun = under_mpirun(2, named("by_mpirun"));
  ASSERT_TRUE(by_mpirun.status.ok()) << by_mpirun.err;
  EXPECT_EQ(own_result_in(work_dir("by_mpirun"))["params_sha256"], hash);
}

TEST_F(OwnProgram, SaysWhatIsWrongWithItsKeys) {
  for (const auto& [word, answer] : {std::pair{"program.widht=3", "did you mean 'width'"},
                                     {"program.width=0", "from 1 to 4096"},
                                     {"model.num_classes=3", "model.num_classes"},
                                     {"loss.name=cross_entropy", "there is no key 'loss"},
                                     {"own.yaml", "--config"},
                                     {"train", "own_model trains without a command"},
                                     {"evaluate", "the commands eval and predict"},
                                     {"--confg=x", "--help"}}) {
    const auto ran = run_program(named("wrong", {word}));
    EXPECT_EQ(ran.status.code, 2) << word;
    EXPECT_THAT(ran.err, HasSubstr(answer)) << word;
    EXPECT_THAT(ran.err, HasSubstr("own_model: error: ")) << word;
  }
}

// Its weights are measured by the program itself; `lockstep` has no such model, and says whose file it is.
TEST_F(OwnProgram, EvaluatesAndPredicts) {
  const auto result = trained(1, "measured");
  const auto folder = work_dir("measured").string(), out = (folder_.path() / "out.json").string();
  const std::string program = std::string(LOCKSTEP_EXAMPLES) + "/own_model";
  const auto eval = run_program({program, "eval", "--weights", folder, "--json", out});
  ASSERT_TRUE(eval.status.ok()) << eval.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(out))["eval_within_0.1"], result["eval_within_0.1"]);
  EXPECT_THAT(run_program({program, "predict", "--help"}).out, HasSubstr("--out"));
  EXPECT_THAT(lockstep({"eval", "--weights", work_dir("nowhere").string()}).err, HasSubstr("there is no such file"));
  const auto wrong = run_program({program, "eval"});
  EXPECT_EQ(wrong.status.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--weights FILE is missing"));
  const auto ours = lockstep({"eval", "--weights", folder});
  EXPECT_EQ(ours.status.code, 2);
  EXPECT_THAT(ours.err, AllOf(HasSubstr("of a program with a model of its own"), HasSubstr("/own_model eval")));
}

// examples/own_tables reads no keys of its own.
TEST_F(OwnProgram, KeysOfItsOwnThatNobodyReadsAreRefused) {
  const auto ran = run_program({std::string(LOCKSTEP_EXAMPLES) + "/own_tables", "program.width=3",
                                "system.work_dir=" + work_dir("unread").string()});
  EXPECT_EQ(ran.status.code, 2) << ran.out;
  EXPECT_THAT(ran.err, HasSubstr("program.width: this program does not read the section program"));
  EXPECT_THAT(ran.out, testing::Not(HasSubstr("epoch: 1")));
}

TEST_F(OwnProgram, ExplainsItself) {
  EXPECT_THAT(run_program(named("x", {"--help"})).out, HasSubstr("KEY=VALUE"));
  const auto keys = run_program(named("x", {"--help-keys"})).out;
  EXPECT_THAT(keys, HasSubstr("optimizer.lr"));
  EXPECT_THAT(keys, testing::Not(HasSubstr("data.train_transforms")));
  EXPECT_THAT(run_program(named("x", {"--dry-run"})).out, HasSubstr("curve.weight"));
  EXPECT_FALSE(std::filesystem::exists(work_dir("x")));
}

class OwnParts : public OwnProgram {
 protected:
  OwnParts() {
    write_file(folder_.path() / "run.yaml",
               "model: {name: net, width: 8}\ndata: {name: line, global_batch_size: 12, shuffle: true}\n"
               "optimizer: {name: sgd, lr: 0.1}\ntrain: {epochs: 4}\n");
  }

  Words words(const std::string& name, Words more = {}) const {
    more.insert(more.begin(), {LOCKSTEP_PARTS_PROGRAM, "--config", (folder_.path() / "run.yaml").string(),
                               "system.work_dir=" + work_dir(name).string()});
    return more;
  }
};

TEST_F(OwnParts, AMeanOverItemsIsThatOfAllRanks) {
  const auto alone = run_program(words("alone"));
  ASSERT_TRUE(alone.status.ok()) << alone.err;
  const auto expected = own_result_in(work_dir("alone"));
  EXPECT_EQ(expected["model"], "net");
  EXPECT_EQ(expected["eval_error"], expected["eval_loss"]);
  // Two batches a step as well: what counts is their sum, not the mean of their means.
  const Words two_batches = {"data.global_batch_size=6", "train.accumulate=2", "data.shuffle=false"};
  const auto in_two = run_program(words("in_two", two_batches));
  ASSERT_TRUE(in_two.status.ok()) << in_two.err;
  for (const int ranks : {2, 3}) {
    for (const std::string mode : {"data_parallel", "semi_auto"}) {
      SCOPED_TRACE(mode + " on " + std::to_string(ranks));
      const auto ran = under_lockstep_run(ranks, words(mode + std::to_string(ranks), {"parallel.mode=" + mode}));
      ASSERT_TRUE(ran.status.ok()) << ran.err;
      EXPECT_NEAR(own_result_in(work_dir(mode + std::to_string(ranks)))["eval_loss"].get<double>(),
                  expected["eval_loss"].get<double>(), 1e-6);
      auto more = two_batches;
      more.push_back("parallel.mode=" + mode);
      ASSERT_TRUE(under_lockstep_run(ranks, words("two" + mode + std::to_string(ranks), more)).status.ok());
      EXPECT_NEAR(own_result_in(work_dir("two" + mode + std::to_string(ranks)))["eval_loss"].get<double>(),
                  own_result_in(work_dir("in_two"))["eval_loss"].get<double>(), 1e-6);
    }
  }
}

TEST_F(OwnParts, APartThatThrowsEndsTheRunOnAllRanksWithItsReason) {
  for (const auto& [key, code, reason] :
       {std::tuple{"model.fails=make", 1, "lockstep_parts_program, model net] the net cannot be made"},
        {"model.fails=forward", 1, "the net cannot compute"},
        {"model.fails=shape", 1, "in the forward pass and loss of a batch of x Float ["},
        {"model.fails=detached", 2, "the task's loss does not depend on any weight"},
        {"data.broken_at=7", 1, "sample 7 is broken"}}) {
    const auto ran = under_lockstep_run(2, words("broken", {key}));
    EXPECT_EQ(ran.status.code, code) << key;
    EXPECT_THAT(ran.err, HasSubstr(reason)) << key;
  }
}

TEST_F(OwnParts, AWrapperPlacesParametersAndPreparesTheModel) {
  EXPECT_THAT(run_program({LOCKSTEP_PARTS_PROGRAM, "--list", "wrappers"}).out,
              testing::AllOf(HasSubstr("fully_sharded"), HasSubstr("some parameters divided by rows")));
  EXPECT_THAT(
      run_program({LOCKSTEP_PARTS_PROGRAM, "--help-keys"}).out,
      testing::AllOf(HasSubstr("parallel.wrapper.of (text"), HasSubstr("parallel.wrapper.threshold_kb (number")));
  const auto hash = [&](const std::string& name, const Words& more) {
    const auto ran = under_lockstep_run(2, words(name, more));
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return own_result_in(work_dir(name))["params_sha256"].get<std::string>();
  };
  const auto by_hand = hash("by_hand", {"parallel.mode=semi_auto", "parallel.shard={\"in.*\": {data: 0}}"});
  EXPECT_EQ(hash("rows", {"parallel.wrapper={type: rows}"}), by_hand);
  const auto placed = [&](const std::string& name) {
    std::string lines;
    for (const auto& each : std::filesystem::directory_iterator(work_dir(name) / "checkpoints")) {
      std::istringstream shown(lockstep({"checkpoint", "inspect", each.path().string()}).out);
      for (std::string line; std::getline(shown, line);) {
        if (line.starts_with("model.in.weight")) lines += line;
      }
    }
    return lines;
  };
  EXPECT_THAT(placed("rows"), HasSubstr("Shard(0)"));
  EXPECT_EQ(placed("rows"), placed("by_hand"));

  const auto zero = hash("zero", {"parallel.wrapper.type=from_zero"});
  EXPECT_NE(zero, hash("random", {}));
  EXPECT_EQ(zero, hash("zero_again", {"parallel.wrapper.type=from_zero", "parallel.mode=data_parallel"}));
  for (const auto& [word, answer] : {std::pair{"parallel.wrapper.type=row", "did you mean 'rows'"},
                                     {"parallel.wrapper={type: rows, off: x}", "did you mean 'of'"},
                                     {"parallel.wrapper={type: from_zero, of: x}", "no key 'parallel.wrapper.of'"}}) {
    const auto ran = run_program(words("wrong", {word}));
    EXPECT_EQ(ran.status.code, 2) << word;
    EXPECT_THAT(ran.err, HasSubstr(answer)) << word;
  }
}

TEST_F(OwnParts, AreListedAndCheckedAsOursAre) {
  const auto listed = run_program({LOCKSTEP_PARTS_PROGRAM, "--list", "models"}).out;
  EXPECT_THAT(listed, testing::AllOf(HasSubstr("two linear layers"), HasSubstr("resnet50"), HasSubstr("gpt")));
  EXPECT_THAT(run_program({LOCKSTEP_PARTS_PROGRAM, "--help-keys"}).out, HasSubstr("model.fails"));
  for (const auto& [word, answer] : {std::pair{"model.width=65", "from 1 to 64"},
                                     {"model.widht=6", "did you mean 'width'"},
                                     {"data.slope=steep", "data.slope"},
                                     {"model.name=nett", "did you mean 'net'"},
                                     {"model.num_classes=3", "model.num_classes"}}) {
    const auto ran = run_program(words("wrong", {word}));
    EXPECT_EQ(ran.status.code, 2) << word;
    EXPECT_THAT(ran.err, HasSubstr(answer)) << word;
  }
  EXPECT_THAT(run_program({LOCKSTEP_PARTS_PROGRAM}).err, HasSubstr("--config FILE is missing"));
}

}  // namespace
}  // namespace lockstep::test
