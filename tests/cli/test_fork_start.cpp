// `lockstep run` with programs of Lockstep's, whose ranks are forks of one process unless something speaks against it.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

/// How many executions the ranks of one run come from.
std::size_t executions(Words flags, const Environment& more = {}, const Words& actions = {}) {
  Words words = {"run", "--nproc-per-node", "3"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {LOCKSTEP_FORKABLE_PROGRAM, "execution="});
  words.insert(words.end(), actions.begin(), actions.end());
  const auto ran = lockstep(words, more);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  const auto lines = lines_of(ran.out);
  std::set<std::string> seen;
  for (const auto& line : lines) seen.insert(line.substr(line.find("execution")));
  EXPECT_THAT(lines, SizeIs(3)) << ran.out;
  return seen.size();
}

TEST(ForkStart, IsTheDefaultAndCanBeTurnedOff) {
  EXPECT_EQ(executions({}), 1U);
  EXPECT_EQ(executions({"--start-method", "forkserver"}), 1U);
  EXPECT_EQ(executions({"--start-method", "spawn"}), 3U);
  EXPECT_EQ(executions({}, {{"PET_START_METHOD", "spawn"}}), 3U);
  EXPECT_EQ(executions({}, {{"LOCKSTEP_START_METHOD", "spawn"}}), 3U);
}

TEST(ForkStart, IsTheWayOfOtherJobsOfOneNodeToo) {
  EXPECT_EQ(executions({"--max-restarts", "1"}), 1U);
  EXPECT_EQ(executions({"--standalone"}), 1U);
}

TEST(ForkStart, RanksThatLoadThemselvesAreStartedWhereTheyCannotBeForked) {
  EXPECT_EQ(executions({}, {{"AT_LOAD", "thread"}}), 3U);
  EXPECT_EQ(executions({}, {{"AT_LOAD", "kill_server"}}), 3U);
}

TEST(ForkStart, RestartsRanks) {
  const auto ran = lockstep({"run", "--nproc-per-node", "2", "--max-restarts", "1", LOCKSTEP_FORKABLE_PROGRAM,
                             "env=TORCHELASTIC_RESTART_COUNT", "1@0:exit=3", "0@0:sleep_ms=60000", "execution="});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("[rank 1] TORCHELASTIC_RESTART_COUNT=0\n"),
                             HasSubstr("[rank 0] TORCHELASTIC_RESTART_COUNT=1\n"),
                             HasSubstr("[rank 1] TORCHELASTIC_RESTART_COUNT=1\n")));
}

TEST(ForkStart, KeepsLogsAndShowsWhatIsAskedFor) {
  const TemporaryFolder folder;
  const auto ran = lockstep({"run", "--nproc-per-node", "2", "--tee", "3", "--local-ranks-filter", "1", "--log-dir",
                             folder.path().string(), "--rdzv-id", "job", LOCKSTEP_FORKABLE_PROGRAM, "env=RANK"});
  EXPECT_EQ(ran.out, "[rank 1] RANK=1\n");
  for (const auto& job : std::filesystem::directory_iterator(folder.path())) {
    for (const auto* rank : {"0", "1"}) {
      EXPECT_EQ(read_file(job.path() / "attempt_0" / rank / "stdout.log"), "RANK=" + std::string(rank) + "\n");
    }
  }
}

TEST(ForkStart, ProgramsOfOtherKindsRunAsTheyAre) {
  const auto ran = under_lockstep_run(2, {LOCKSTEP_RANK_PROGRAM, "env=RANK"});
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[rank 0] RANK=0", "[rank 1] RANK=1")) << ran.err;
  const auto python = under_lockstep_run(2, {"python3", "-c", "import os; print(os.environ['RANK'])"});
  EXPECT_THAT(lines_of(python.out), UnorderedElementsAre("[rank 0] 0", "[rank 1] 1")) << python.err;
}

TEST(ForkStart, RanksMeetAtTheStoreOfTheLauncher) {
  const Workbench bench;
  Words words = {"--start-method", "forkserver"};
  const Words train = bench.train();
  words.insert(words.begin(), {"run", "--nproc-per-node", "2"});
  words.insert(words.end(), train.begin(), train.end());
  const auto ran = lockstep(words);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.err.find("each rank loads its program itself"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace lockstep::test
