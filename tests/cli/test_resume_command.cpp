// `lockstep train` in a folder where another run has been: what may differ from it, and what is said of the rest.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const ExitStatus kMistake{2, 0};

/// 4 steps an epoch on one rank; `more` is said to each of the runs.
/// Without what a process that only finds the run finished adds.
nlohmann::json without_times(nlohmann::json result) {
  for (const auto* key : {"time", "ettr", "longest_wait", "shortest_wait"}) result.erase(key);
  return result;
}

class ResumeCommand : public testing::Test {
 protected:
  Captured train(const Words& more = {}) const { return run_program(bench_.train(more)); }

  void expect_trained(const Words& more, const std::string& words) const {
    const auto ran = train(more);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr(words));
  }

  /// And leaves the folder as it is.
  void expect_refused(const Words& more, const testing::Matcher<std::string>& said) const {
    const auto config = read_file(bench_.work_dir() / "config.yaml");
    const auto result = read_file(bench_.work_dir() / "result.json");
    const auto metrics = read_file(bench_.work_dir() / "metrics.jsonl");
    const auto ran = train(more);
    EXPECT_EQ(ran.status, kMistake) << ran.out;
    EXPECT_THAT(ran.err, said);
    EXPECT_THAT(ran.out, Not(HasSubstr("done: accuracy")));
    EXPECT_EQ(read_file(bench_.work_dir() / "config.yaml"), config);
    EXPECT_EQ(read_file(bench_.work_dir() / "result.json"), result);
    EXPECT_EQ(read_file(bench_.work_dir() / "metrics.jsonl"), metrics);
  }

  nlohmann::json result() const { return nlohmann::json::parse(read_file(bench_.work_dir() / "result.json")); }

  const Workbench bench_;
};

TEST_F(ResumeCommand, AnotherLearningRateOrScheduleNeedsConsent) {
  expect_trained({"train.steps=2"}, "done: accuracy");
  expect_refused({"optimizer.lr=5"}, AllOf(HasSubstr("  optimizer.lr: 0.05 -> 5\n"), HasSubstr("step 2 in "),
                                           HasSubstr("checkpoint.allow_changes=[optimizer.lr]")));
  expect_refused({"optimizer.lr=5", "scheduler.name=cosine", "checkpoint.allow_changes=[optimizer.lr]"},
                 AllOf(HasSubstr("  scheduler.name: constant -> cosine\n"),
                       HasSubstr("checkpoint.allow_changes=[optimizer.lr,scheduler.name,train.steps]")));
  expect_trained({"optimizer.lr=0.01", "checkpoint.allow_changes=[optimizer.lr]"},
                 "changed since the checkpoint: optimizer.lr: 0.05 -> 0.01 (allowed by checkpoint.allow_changes)");
  EXPECT_EQ(result()["steps"], 4);
  expect_refused({"train.epochs=2"}, HasSubstr("optimizer.lr: 0.01 -> 0.05"));  // it is now a run with that
}

TEST_F(ResumeCommand, OnSeveralRanksAllSayTheSame) {
  expect_trained({"train.steps=2"}, "done: accuracy");
  const auto ran = under_lockstep_run(2, bench_.train({"data.batch_size=5", "optimizer.lr=5"}));
  EXPECT_EQ(ran.status, kMistake);
  // Said once, by the launcher.
  const std::string reason = "[checkpoint.resume] this run would go on";
  EXPECT_THAT(ran.err, HasSubstr("\n  reason: " + reason));
  EXPECT_THAT(ran.err, HasSubstr(", for the same reason"));
  EXPECT_EQ(ran.err.find(reason), ran.err.rfind(reason)) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("because it lost another rank")));
}

TEST_F(ResumeCommand, AFinishedRunIsNotPassedOffAsAnother) {
  expect_trained({}, "done: accuracy");
  const auto before = result();
  expect_trained({}, "4 of 4 steps are done: nothing is left to train");
  expect_refused({"scheduler.name=cosine"}, HasSubstr("scheduler.name: constant -> cosine"));
  expect_refused({"scheduler.name=cosine", "checkpoint.allow_changes=true"},
                 AllOf(HasSubstr("of a finished run: all 4 steps (train.epochs=1 of 4 steps) are done"),
                       HasSubstr("Raise train.epochs")));
  EXPECT_EQ(without_times(result()), without_times(before));
  expect_trained({"callbacks.loss_every=2"}, "changed since the checkpoint: callbacks.loss_every: ~ -> 2");
}

TEST_F(ResumeCommand, MoreEpochsAreOnlyAChangeWhereTheScheduleLooksAhead) {
  expect_trained({}, "done: accuracy");
  expect_trained({"train.epochs=3"}, "changed since the checkpoint: train.epochs: 1 -> 3");
  EXPECT_EQ(result()["steps"], 12);
  expect_refused({"train.epochs=2"},
                 AllOf(HasSubstr("has done 12 steps, more than the 8 steps (train.epochs=2 of 4 steps) of this one"),
                       HasSubstr("another system.work_dir")));
  const std::string folder = "checkpoint.folder=" + (bench_.path() / "kept").string();
  expect_trained({folder, "train.epochs=3"}, "done: accuracy");
  expect_refused({folder, "train.epochs=2"}, HasSubstr("start from the beginning in another checkpoint.folder"));
  const Words cosine = {"scheduler.name=cosine", "system.work_dir=" + (bench_.path() / "cosine").string()};
  const auto with = [&](Words more) {
    more.insert(more.end(), cosine.begin(), cosine.end());
    return more;
  };
  expect_trained(with({}), "done: accuracy");
  EXPECT_THAT(train(with({"train.epochs=2"})).err, HasSubstr("  train.epochs: 1 -> 2\n"));
  expect_trained(with({"train.epochs=2", "checkpoint.allow_changes=[train.epochs]"}), "epoch: 2 step: 4");
}

TEST_F(ResumeCommand, AnotherModelIsAnotherRun) {
  expect_trained({"train.epochs=2"}, "done: accuracy");
  expect_refused(
      {"model.hidden=[32]", "checkpoint.allow_changes=true"},
      AllOf(HasSubstr("cannot go on from the checkpoint of step 8 in "), HasSubstr("  model.hidden: [16] -> [32]\n"),
            HasSubstr("Different besides:\n  train.epochs: 2 -> 1"),
            HasSubstr("start from the beginning in another system.work_dir")));
}

TEST_F(ResumeCommand, OptionsOfPartsNeedConsentAndFilesMayMove) {
  const auto file = bench_.path() / "gpt.yaml", book = bench_.path() / "book.txt", moved = bench_.path() / "moved.txt";
  write_file(book, std::string(400, 'a'));
  write_file(file,
             "model: {name: gpt, layers: 1, heads: 1, width: 8, context: 8}\n"
             "data: {name: text, length: 8, batch_size: 4}\n"
             "optimizer: {name: adam, lr: 0.01}\ntrain: {steps: 2}\n");
  const auto train_gpt = [&](const std::filesystem::path& text, const Words& more) {
    Words words = {LOCKSTEP_BINARY,
                   "train",
                   "--config",
                   file.string(),
                   "data.file=" + text.string(),
                   "system.work_dir=" + (bench_.path() / "gpt").string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const auto first = train_gpt(book, {});
  ASSERT_TRUE(first.status.ok()) << first.err;
  std::filesystem::rename(book, moved);
  for (const auto& [key, change] : {std::pair{"model.dropout", "0 -> 0.1"}, {"data.vocabulary", "0 -> 200"}}) {
    const auto value = std::string(change).substr(std::string(change).rfind(' ') + 1);
    const auto ran = train_gpt(moved, {fmt::format("{}={}", key, value), "train.steps=4"});
    EXPECT_EQ(ran.status, kMistake) << key << ran.out;
    EXPECT_THAT(ran.err, AllOf(HasSubstr(fmt::format("  {}: {}\n", key, change)),
                               HasSubstr(fmt::format("checkpoint.allow_changes=[{}]", key))));
  }
  const auto allowed =
      train_gpt(moved, {"model.dropout=0.1", "train.steps=4", "checkpoint.allow_changes=[model.dropout]"});
  EXPECT_TRUE(allowed.status.ok()) << allowed.err;
  EXPECT_THAT(allowed.out, AllOf(HasSubstr("model.dropout: 0 -> 0.1 (allowed by checkpoint.allow_changes)"),
                                 HasSubstr(fmt::format("data.file: {} -> {}\n", book.string(), moved.string()))));
}

TEST_F(ResumeCommand, WhatARunIsCalledAndWhereItRunsIsNoChange) {
  expect_trained({"train.steps=2"}, "done: accuracy");
  const auto ran = under_lockstep_run(
      2,
      bench_.train({"data.batch_size=null", "data.global_batch_size=10", "optimizer.momentum=null", "system.threads=2",
                    "system.work_dir=" + (bench_.path() / "." / "out").string(), "model.autocast=none"}));
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ranks: 1 -> 2"), HasSubstr("system.threads: 1 -> 2"),
                             HasSubstr("data.global_batch_size: ~ -> 10"), Not(HasSubstr("momentum"))));
  EXPECT_EQ(result()["steps"], 4);
  EXPECT_EQ(result()["batch_size"], nullptr);
  EXPECT_EQ(result()["global_batch_size"], 10);
}

TEST_F(ResumeCommand, AFolderWithoutCheckpointsIsWrittenAnew) {
  const Words none = {"checkpoint.every_epochs=0"};
  expect_trained(none, "done: accuracy");
  expect_trained({"checkpoint.every_epochs=0", "optimizer.lr=0.01"},
                 "holds the result of an earlier run and no checkpoint");
  EXPECT_THAT(read_file(bench_.work_dir() / "config.yaml"), HasSubstr("lr: 0.01"));
}

}  // namespace
}  // namespace lockstep::test
