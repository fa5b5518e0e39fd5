// Ranks of `lockstep run` that are lost in the middle of a run and replaced in place.
#include "cli/replaced_ranks.h"
#include "cli/supervised_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct LossCase {
  const char* name;
  const char* fault;
  int rank;  ///< that is killed
  Words flags = {};
  Words keys = {};
  Environment variables = {};
};

class Replacement : public testing::TestWithParam<LossCase> {};

TEST_P(Replacement, OneRankIsStartedAgainAndNoStepIsLost) {
  const LossCase& one = GetParam();
  const Workbench bench;
  Environment variables = one.variables;
  variables["LOCKSTEP_FAULT"] = one.fault;
  const auto ran = run_program(launched(3, one.flags, bench.train(keys_with(one.keys))), variables);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.err, ContainsRegex(fmt::format("lockstep run: rank {} \\(pid [0-9]+\\) was lost after [0-9.]+ s: "
                                                 "signal 9 \\(SIGKILL\\); {} [0-9]+ takes its place",
                                                 one.rank, kReplaced)));
  EXPECT_THAT(ran.err, Not(HasSubstr("restarted")));
  const int survivor = one.rank == 0 ? 1 : 0;
  EXPECT_THAT(log_of(bench, survivor), HasSubstr("going on after step")) << ran.err;
  EXPECT_THAT(log_of(bench, survivor), Not(HasSubstr("the newest checkpoint is used instead")));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(3, keys_with(one.keys))) << ran.err;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Replacement,
    testing::Values(
        LossCase{"RankZero", "rank=0,step=5,action=kill,place=reduced", 0},
        LossCase{"Spawned", "rank=1,step=5,action=kill,place=begin", 1, {"--start-method", "spawn"}},
        LossCase{"Shards", "rank=1,step=5,action=kill,place=reduced", 1, {}, {"parallel.shard_optimizer=true"}},
        LossCase{"Tcp", "rank=1,step=5,action=kill,place=backward", 1, {}, {}, {{"LOCKSTEP_BACKEND", "tcp"}}}),
    [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Thorough, Replacement,
    testing::Values(LossCase{"Begin", "rank=1,step=5,action=kill,place=begin", 1},
                    LossCase{"Backward", "rank=2,step=5,action=kill,place=backward", 2},
                    LossCase{"RankZeroSaves", "rank=0,step=6,action=kill,place=save", 0},
                    LossCase{"TheFirstStep", "rank=1,step=1,action=kill,place=forward", 1},
                    LossCase{"TheLastStep", "rank=2,step=16,action=kill,place=reduced", 2},
                    LossCase{"Agent", "rank=1,step=5,action=kill,place=begin", 1, {"--max-restarts", "2"}}),
    [](const auto& one) { return one.param.name; });

// The incomplete step, the detection, the replacement and the repeated step. All ranks have the parts of the whole job,
// also the one that was not there from the start.
TEST(ReplacementTimes, WhatALossCostsIsLostTime) {
  const Workbench bench;
  const auto ran = run_program(launched(3, {}, bench.train(keys_with({}))),
                               {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill,place=backward"}});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  const auto& time = result.at("time");
  const double wall = time.at("wall_s");
  double sum = 0;
  for (const auto& [part, seconds] : time.items()) sum += part == "wall_s" ? 0.0 : seconds.get<double>();
  EXPECT_NEAR(sum, wall, 0.01 * wall);
  for (const auto* part : {"start_s", "data_s", "compute_s", "lost_s"}) EXPECT_GT(time.at(part), 0) << part;
  EXPECT_LT(time.at("lost_s"), wall);
  EXPECT_THAT(ran.out, ContainsRegex("time: [0-9.]+ s, of which .*lost [0-9]+ %"));
}

Child start(const Words& words, const Environment& more, const std::filesystem::path& err) {
  ChildOptions options;
  options.arguments = {"bash", "-c", "exec \"$@\" 2> \"$0\"", err.string()};
  options.arguments.insert(options.arguments.end(), words.begin(), words.end());
  options.environment = environment_with(more);
  options.out = ChildStream::discard;
  return Child(options);
}

/// Slow enough to be struck in the middle.
const Environment kSlow = {{"LOCKSTEP_FAULT", "rank=0,step=1,action=slow,ms=60"}};

TEST(ReplacementOfProcesses, ThreeOfFourKeepTheirsWhenOneIsKilled) {
  const Workbench bench;
  const auto err = bench.path() / "err";
  Child job = start(launched(4, {"--start-method", "spawn"}, bench.train(kRun)), kSlow, err);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3); })) << read_file(err);
  const auto before = ranks_below(job.pid());
  ASSERT_EQ(before.size(), 4U) << read_file(err);
  ::kill(before.at(2), SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    const auto now = ranks_below(job.pid());
    return now.size() == 4 && now.at(2) != before.at(2);
  })) << read_file(err);
  const auto after = ranks_below(job.pid());
  for (const int rank : {0, 1, 3}) EXPECT_EQ(after.at(rank), before.at(rank)) << rank;
  const auto end = job.wait_for(90s);
  ASSERT_TRUE(end && end->ok()) << read_file(err);
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(4, kRun)) << read_file(err);
}

TEST(ReplacementOfProcesses, OneThatIsStoppedIsEndedAndReplaced) {
  const Workbench bench;
  const auto err = bench.path() / "err";
  auto variables = kSlow;
  variables["LOCKSTEP_NODE_TIMEOUT_S"] = "3";
  Child job = start(launched(2, {"--start-method", "spawn"}, bench.train(kRun)), variables, err);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3); })) << read_file(err);
  const auto before = ranks_below(job.pid());
  ASSERT_EQ(before.size(), 2U) << read_file(err);
  ::kill(before.at(1), SIGSTOP);
  const auto end = job.wait_for(90s);
  ASSERT_TRUE(end && end->ok()) << read_file(err);
  EXPECT_THAT(read_file(err), HasSubstr(kReplaced));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(2, kRun)) << read_file(err);
}

// It would wait for the new rank, and forget that it was asked.
TEST(ReplacementOfProcesses, ThoroughOneThatIsAskedToEndWhileAnotherIsLostEnds) {
  const Workbench bench;
  const auto err = bench.path() / "err";
  Child job = start(launched(2, {"--start-method", "spawn"}, bench.train(kRun)), kSlow, err);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3); })) << read_file(err);
  const auto before = ranks_below(job.pid());
  ASSERT_EQ(before.size(), 2U) << read_file(err);
  ::kill(before.at(0), SIGSTOP);
  ::kill(before.at(0), SIGTERM);
  ::kill(before.at(1), SIGKILL);
  EXPECT_TRUE(wait_until([&] { return read_file(err).find(kReplaced) != std::string::npos; })) << read_file(err);
  ::kill(before.at(0), SIGCONT);
  const auto end = job.wait_for(90s);
  ASSERT_TRUE(end) << read_file(err);
  EXPECT_EQ(end->code, 128 + SIGTERM) << read_file(err);
}

TEST(ReplacementOfProcesses, ThoroughOneThatIsKilledWhileRanksConnect) {
  const Workbench bench;
  const auto ran =
      run_program(launched(3, {}, bench.train(kRun)), {{"LOCKSTEP_FAULT", "rank=1,step=1,action=kill,place=connect"}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr(kReplaced));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(3, kRun)) << ran.err;
}

TEST(ReplacementOfProcesses, OneThatHangsSaysWhereAndIsReplaced) {
  const Workbench bench;
  const auto ran = run_program(
      launched(2, {}, bench.train(kRun)),
      {{"LOCKSTEP_FAULT", "rank=1,step=5,action=loop"}, {"LOCKSTEP_TIMEOUT_S", "4"}, {"LOCKSTEP_HANG_TIMEOUT_S", "3"}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr(kReplaced));
  EXPECT_THAT(ran.err, HasSubstr("lockstep::train::Session::train_step")) << "where it hangs";
  EXPECT_THAT(ran.err, HasSubstr("signal 9 (SIGKILL), because it hung, or sent no heartbeats"));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(2, kRun)) << ran.err;
}

TEST(ReplacementOfProcesses, WithoutItTheReportNamesTheCallThatARankLacks) {
  const Workbench bench;
  const auto logs = (bench.path() / "logs").string();
  const auto ran =
      run_program(launched(3, {"--max-restarts", "0", "--grace", "1", "--log-dir", logs}, bench.train(kRun)),
                  {{"LOCKSTEP_FAULT", "rank=1,step=5,action=loop"}, {"LOCKSTEP_TIMEOUT_S", "4"}});
  EXPECT_EQ(ran.status.code, 1) << ran.err;
  const std::string lacks = "rank 1 has not made it; its last call was [a-z_]+ [0-9]+";
  EXPECT_THAT(ran.err, ContainsRegex("calls: group \"world\": not all ranks have made all_reduce [0-9]+ \\(.*what the "
                                     "ranks agree on in a step\\)\n *ranks 0, 2 are in it, since [0-9.]+ s\n *" +
                                     lacks));
  const auto told = lockstep({"status", "--calls", logs});
  EXPECT_TRUE(told.status.ok()) << told.err;
  EXPECT_THAT(told.out, ContainsRegex("not all ranks have made all_reduce [0-9]+"));
  EXPECT_THAT(told.out, ContainsRegex(lacks));
  EXPECT_THAT(told.out, HasSubstr("rank 2, group \"world\":\n"));
}

/// The processes below a launcher that are none of a rank's, by their names.
std::multimap<std::string, pid_t> helpers_below(pid_t launcher) {
  std::multimap<std::string, pid_t> helpers;
  std::istringstream children(read_file(fmt::format("/proc/{0}/task/{0}/children", launcher)));
  for (pid_t pid = 0; children >> pid;) {
    auto name = read_file(fmt::format("/proc/{}/comm", pid));
    while (name.ends_with('\n')) name.pop_back();
    if (!name.starts_with("lockstep-")) continue;
    helpers.emplace(name, pid);
    helpers.merge(helpers_below(pid));
  }
  return helpers;
}

/// Ranks that were forked, whose environment /proc does not show.
std::set<pid_t> forked_ranks_below(pid_t launcher) {
  std::set<pid_t> ranks;
  std::istringstream children(read_file(fmt::format("/proc/{0}/task/{0}/children", launcher)));
  for (pid_t pid = 0; children >> pid;) {
    if (!read_file(fmt::format("/proc/{}/comm", pid)).starts_with("lockstep-")) ranks.insert(pid);
  }
  return ranks;
}

// With the server that forks, whatever hosts a store for it goes, too. Then a rank: it is replaced all the same.
TEST(ReplacementOfProcesses, HelpersOfTheLauncherThatAreKilledAreMissedByNobody) {
  const Workbench bench;
  const auto keys = keys_with({"train.epochs=24"});
  const auto err = bench.path() / "err";
  Child job = start(launched(2, {}, bench.train(keys)), kSlow, err);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3); })) << read_file(err);
  const auto before = forked_ranks_below(job.pid());
  ASSERT_EQ(before.size(), 2U) << read_file(err);
  const auto helpers = helpers_below(job.pid());
  EXPECT_EQ(helpers.count("lockstep-forks"), 1U);
  EXPECT_EQ(helpers.count("lockstep-keeper"), 2U);
  for (const auto& [name, pid] : helpers) ::kill(pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return helpers_below(job.pid()).count("lockstep-keeper") == 2; })) << read_file(err);
  ASSERT_TRUE(wait_until([&] { return read_file(err).find("lockstep-forks (pid") != std::string::npos; }));
  const auto steps = lines_of(read_file(bench.work_dir() / "metrics.jsonl")).size();
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, static_cast<int>(steps) + 2); })) << read_file(err);
  EXPECT_EQ(forked_ranks_below(job.pid()), before) << "none of them left the group, " << read_file(err);
  ::kill(*before.begin(), SIGKILL);
  const auto end = job.wait_for(90s);
  ASSERT_TRUE(end && end->ok()) << read_file(err);
  EXPECT_THAT(read_file(err), HasSubstr("ended: signal 9 (SIGKILL); the job goes on without it"));
  EXPECT_THAT(read_file(err), HasSubstr(kReplaced));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(2, keys)) << read_file(err);
}

TEST(ReplacementOfProcesses, NoMoreThanAreAllowed) {
  const Workbench bench;
  const auto ran = run_program(launched(2, {"--max-restarts", "0"}, bench.train(kRun)),
                               {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill"}});
  EXPECT_EQ(ran.status.code, 128 + SIGKILL) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr(kReplaced)));
  EXPECT_THAT(ran.err, HasSubstr("rank 1"));
}

TEST(ReplacementOfProcesses, ThoroughTheLastOneThatIsLeftIsNamed) {
  const Workbench bench;
  const auto err = bench.path() / "err";
  Child job = start(launched(2, {"--start-method", "spawn"}, bench.train(keys_with({"train.epochs=60"}))), kSlow, err);
  std::set<pid_t> killed;
  for (int strike = 0; strike < 4; ++strike) {
    ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3 * (strike + 1)); })) << read_file(err);
    ASSERT_TRUE(wait_until([&] {
      const auto now = ranks_below(job.pid());
      return now.contains(1) && !killed.contains(now.at(1));
    })) << read_file(err);
    const auto pid = ranks_below(job.pid()).at(1);
    killed.insert(pid);
    // Not before it takes part again.
    ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3 * (strike + 1) + 2); })) << read_file(err);
    ::kill(pid, SIGKILL);
  }
  const auto end = job.wait_for(90s);
  ASSERT_TRUE(end) << read_file(err);
  EXPECT_EQ(end->code, 128 + SIGKILL) << read_file(err);
  EXPECT_THAT(read_file(err), HasSubstr("it is not replaced: none of the job's replacements is left (--max-restarts)"));
}

TEST(ReplacementOfProcesses, AnErrorOfTheProgramEndsTheJob) {
  const Workbench bench;
  const auto ran = run_program(launched(2, {}, bench.train(kRun)), {{"LOCKSTEP_FAULT", "rank=1,step=5,action=throw"}});
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, Not(HasSubstr(kReplaced)));
  EXPECT_THAT(ran.err, HasSubstr("rank 1"));
}

TEST(ReplacementOfProcesses, ThoroughOneThatCallsExitInTheMiddleEndsTheJobWithItsName) {
  const Workbench bench;
  const auto ran = run_program(launched(3, {}, bench.train(kRun)), {{"LOCKSTEP_FAULT", "rank=1,step=5,action=quit"}});
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, HasSubstr("rank 1"));
  EXPECT_THAT(ran.err, HasSubstr("its process called exit() in the middle of the job"));
  EXPECT_THAT(ran.err, Not(HasSubstr(kReplaced)));
}

TEST(ReplacementOfProcesses, ThoroughAllAreStartedAnewWhereThatIsAskedFor) {
  const Workbench bench;
  const auto ran = run_program(launched(2, {"--max-restarts", "1", "--on-loss", "restart"},
                                        bench.train(keys_with({"checkpoint.every_steps=1"}))),
                               {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill"}});
  EXPECT_THAT(ran.err, HasSubstr("all ranks are restarted: restart 1 of 1"));
  EXPECT_THAT(ran.err, Not(HasSubstr(kReplaced)));
}

TEST(ReplacementOfProcesses, TwoProgramsInARowUnderOneLauncher) {
  const Workbench first;
  const Workbench second;
  const auto line = [](const Words& words) { return fmt::format("{}", fmt::join(words, " ")); };
  const auto both = line(first.train(kRun)) + " && " + line(second.train(kRun));
  const auto ran =
      run_program(launched(2, {}, {"bash", "-c", both}), {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill"}});
  // Bash tells of its program's end by its exit code, which is not a mishap: the whole rank is not replaced.
  EXPECT_EQ(ran.status.code, 128 + SIGKILL) << ran.err;
  const Workbench third;
  const auto calm = line(second.train(kRun)) + " && " + line(third.train(kRun));
  const auto undisturbed = run_program(launched(2, {}, {"bash", "-c", calm}));
  EXPECT_TRUE(undisturbed.status.ok()) << undisturbed.err;
  EXPECT_EQ(hash_in(third.work_dir()), hash_of_peace(2, kRun)) << undisturbed.err;
  EXPECT_EQ(hash_in(second.work_dir()), hash_of_peace(2, kRun)) << undisturbed.err;
}

}  // namespace
}  // namespace lockstep::test
