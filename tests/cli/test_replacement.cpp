// Ranks of `lockstep run` that are lost in the middle of a run and replaced in place.
#include "cli/elastic_nodes.h"
#include "cli/supervised_job.h"

#include <lockstep/base/parse.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <set>
#include <sstream>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr auto kReplaced = "the others go on with what they have in memory, and pid";

/// 24 steps with two ranks, 16 with three.
const Words kRun = {"data.batch_size=6", "train.epochs=8", "train.eval_every=1", "callbacks.metrics_every=1"};

Words launched(int ranks, const Words& flags, Words program) {
  Words words = {LOCKSTEP_BINARY, "run", "--nproc-per-node", std::to_string(ranks)};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

Words keys_with(Words keys) {
  keys.insert(keys.begin(), kRun.begin(), kRun.end());
  return keys;
}

/// The hash of a run with so many ranks that nothing happens to.
std::string hash_of_peace(int ranks, const Words& keys) {
  static std::map<std::pair<int, Words>, std::string> known;
  auto& hash = known[{ranks, keys}];
  if (!hash.empty()) return hash;
  const Workbench bench;
  const auto ran = run_program(launched(ranks, {"--max-restarts", "0"}, bench.train(keys)));
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  return hash = hash_in(bench.work_dir());
}

std::string log_of(const Workbench& bench, int rank) {
  return read_file(bench.work_dir() / "log" / fmt::format("rank.{}", rank));
}

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
  EXPECT_THAT(ran.err, Not(HasSubstr("started anew")));
  const int survivor = one.rank == 0 ? 1 : 0;
  EXPECT_THAT(log_of(bench, survivor), HasSubstr("going on after step")) << ran.err;
  EXPECT_THAT(log_of(bench, survivor), Not(HasSubstr("the newest checkpoint counts")));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(3, keys_with(one.keys))) << ran.err;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Replacement,
    testing::Values(
        LossCase{"Begin", "rank=1,step=5,action=kill,place=begin", 1},
        LossCase{"Backward", "rank=2,step=5,action=kill,place=backward", 2},
        LossCase{"RankZero", "rank=0,step=5,action=kill,place=reduced", 0},
        LossCase{"RankZeroSaves", "rank=0,step=6,action=kill,place=save", 0},
        LossCase{"TheFirstStep", "rank=1,step=1,action=kill,place=forward", 1},
        LossCase{"TheLastStep", "rank=2,step=16,action=kill,place=reduced", 2},
        LossCase{"Spawned", "rank=1,step=5,action=kill,place=begin", 1, {"--start-method", "spawn"}},
        LossCase{"Agent", "rank=1,step=5,action=kill,place=begin", 1, {"--max-restarts", "2"}},
        LossCase{"Shards", "rank=1,step=5,action=kill,place=reduced", 1, {}, {"parallel.shard_optimizer=true"}},
        LossCase{"Gloo", "rank=1,step=5,action=kill,place=backward", 1, {}, {}, {{"LOCKSTEP_BACKEND", "gloo"}}}),
    [](const auto& one) { return one.param.name; });

Child start(const Words& words, const Environment& more, const std::filesystem::path& err) {
  ChildOptions options;
  options.arguments = {"bash", "-c", "exec \"$@\" 2> \"$0\"", err.string()};
  options.arguments.insert(options.arguments.end(), words.begin(), words.end());
  options.environment = environment_with(more);
  options.out = ChildStream::discard;
  return Child(options);
}

template <typename Condition>
[[nodiscard]] bool wait_until(const Condition& happens) {
  for (const auto deadline = std::chrono::steady_clock::now() + 90s; std::chrono::steady_clock::now() < deadline;) {
    if (happens()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

/// The processes that are ranks, by rank, as their own environments say.
std::map<int, pid_t> ranks_below(pid_t launcher) {
  std::map<int, pid_t> ranks;
  std::istringstream children(read_file(fmt::format("/proc/{0}/task/{0}/children", launcher)));
  for (pid_t pid = 0; children >> pid;) {
    const auto words = read_file(fmt::format("/proc/{}/environ", pid));
    const auto at = words.find(std::string("\0RANK=", 6));
    if (at == std::string::npos || words.find("LOCKSTEP_SESSION_FILE=") == std::string::npos) continue;
    if (const auto rank = parse_integer(std::string(words.c_str() + at + 6))) ranks[static_cast<int>(*rank)] = pid;
  }
  return ranks;
}

/// Slow enough to be struck in the middle.
const Environment kSlow = {{"LOCKSTEP_FAULT", "rank=0,step=1,action=slow,ms=60"}};

bool has_made_steps(const Workbench& bench, int steps) {
  std::istringstream lines(read_file(bench.work_dir() / "metrics.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  return count >= steps;
}

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

TEST(ReplacementOfProcesses, OneThatIsKilledWhileRanksConnect) {
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
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(2, kRun)) << ran.err;
}

TEST(ReplacementOfProcesses, NoMoreThanAreAllowed) {
  const Workbench bench;
  const auto ran = run_program(launched(2, {"--max-restarts", "0"}, bench.train(kRun)),
                               {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill"}});
  EXPECT_EQ(ran.status.code, 128 + SIGKILL) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr(kReplaced)));
  EXPECT_THAT(ran.err, HasSubstr("rank 1"));
}

TEST(ReplacementOfProcesses, TheLastOneThatIsLeftIsNamed) {
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

TEST(ReplacementOfProcesses, AllAreStartedAnewWhereThatIsAskedFor) {
  const Workbench bench;
  const auto ran = run_program(launched(2, {"--max-restarts", "1", "--on-loss", "restart"},
                                        bench.train(keys_with({"checkpoint.every_steps=1"}))),
                               {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill"}});
  EXPECT_THAT(ran.err, HasSubstr("all ranks are started anew: restart 1 of 1"));
  EXPECT_THAT(ran.err, Not(HasSubstr(kReplaced)));
}

TEST(ReplacementOfProcesses, TwoProgramsInARowUnderOneLauncher) {
  const Workbench first;
  const Workbench second;
  const auto line = [](const Words& words) { return fmt::format("{}", fmt::join(words, " ")); };
  const auto both = line(first.train(kRun)) + " && " + line(second.train(kRun));
  const auto ran =
      run_program(launched(2, {}, {"bash", "-c", both}), {{"LOCKSTEP_FAULT", "rank=1,step=5,action=kill"}});
  // Bash tells of its program's end by its exit code, which is no mishap: the whole rank is not replaced.
  EXPECT_EQ(ran.status.code, 128 + SIGKILL) << ran.err;
  const Workbench third;
  const auto calm = line(second.train(kRun)) + " && " + line(third.train(kRun));
  const auto undisturbed = run_program(launched(2, {}, {"bash", "-c", calm}));
  EXPECT_TRUE(undisturbed.status.ok()) << undisturbed.err;
  EXPECT_EQ(hash_in(third.work_dir()), hash_of_peace(2, kRun)) << undisturbed.err;
  EXPECT_EQ(hash_in(second.work_dir()), hash_of_peace(2, kRun)) << undisturbed.err;
}

TEST(ReplacementOfProcesses, OnOneOfTwoNodes) {
  const Workbench bench;
  const Meeting meeting;
  const auto command = bench.train(kRun);
  Words flags = {"--nnodes", "2", "--nproc-per-node", "2"};
  const auto node = [&] {
    Words words = {"env", "LOCKSTEP_FAULT=rank=3,step=4,action=kill", LOCKSTEP_BINARY, "run"};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto more = meeting.flags();
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), command.begin(), command.end());
    return words;
  };
  Agent a = Agent::of_command(node());
  Agent b = Agent::of_command(node());
  EXPECT_TRUE(a.wait().ok()) << a.said();
  EXPECT_TRUE(b.wait().ok()) << b.said();
  EXPECT_THAT(a.said() + b.said(), HasSubstr(kReplaced));
  EXPECT_THAT(a.said() + b.said(), Not(HasSubstr("started anew")));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(4, kRun)) << a.said() << b.said();
}

}  // namespace
}  // namespace lockstep::test
