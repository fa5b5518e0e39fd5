// `lockstep run` as users start it: the store, signals, and the ways to die. tests/cluster has the finer points.
#include "cli/rank_program.h"
#include "cluster/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

TEST(RunCommand, EverythingAfterTheProgramBelongsToIt) {
  // "--" before the program is the launcher's, after it the program's: which has no such action and dies of it.
  for (const Words& options :
       std::vector<Words>{{"--nproc-per-node", "2"}, {"--nproc_per_node=2"}, {"--nproc-per-node", "2", "--"}}) {
    Words arguments = {"run"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    for (const auto& word : rank_program({"print=--nproc-per-node", "0:print=-- x"})) arguments.push_back(word);
    const auto ran = lockstep(arguments);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    EXPECT_THAT(lines_of(ran.out),
                UnorderedElementsAre("[rank 0] --nproc-per-node", "[rank 0] -- x", "[rank 1] --nproc-per-node"));
  }
}

TEST(RunCommand, FailsAsTheFirstRankThatFailed) {
  const auto ran = under_lockstep_run(2, rank_program({"1:error=why", "1:exit=5", "sleep_ms=60000"}));
  EXPECT_EQ(ran.status, (ExitStatus{5, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("[rank 1] why\n"), HasSubstr("lockstep run: rank 1"), HasSubstr("exit code 5")));
  const auto killed = under_lockstep_run(1, rank_program({"kill_self=9"}));
  EXPECT_EQ(killed.status, (ExitStatus{137, 0}));
}

TEST(RunCommand, SaysWhenTheProgramCannotBeRun) {
  const auto ran = under_lockstep_run(2, {"no-such-program"});
  EXPECT_EQ(ran.status, (ExitStatus{2, 0}));
  EXPECT_THAT(ran.err, AllOf(StartsWith("lockstep: error: "), HasSubstr("'no-such-program'")));
}

TEST(RunCommand, WithoutPrefix) {
  Words arguments = {"run", "--no-prefix", "--nproc-per-node", "1"};
  for (const auto& word : rank_program({"raw=a\tb"})) arguments.push_back(word);
  EXPECT_EQ(lockstep(arguments).out, "a\tb");
}

// A launcher with libtorch's own threads, on which signals may land just as well.
Child start_launcher(const Words& actions, const Environment& more = {}) {
  ChildOptions options;
  options.arguments = {LOCKSTEP_BINARY, "run", "--nproc-per-node", "2"};
  for (const auto& word : rank_program(actions)) options.arguments.push_back(word);
  options.environment = environment_with(more);
  options.environment->erase("OMP_NUM_THREADS");
  options.environment->insert_or_assign("OPENBLAS_NUM_THREADS", std::string("4"));
  options.out = ChildStream::pipe;
  return Child(options);
}

void wait_for_output(Child& child) {
  char byte = 0;
  ASSERT_EQ(::read(child.out().get(), &byte, 1), 1) << "the ranks never started";
}

TEST(RunCommand, PassesOnASignalWhicheverThreadGetsIt) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    Probe probe;
    Child launcher = start_launcher({"print=ready", "sleep_ms=60000"});
    wait_for_output(launcher);
    ::kill(launcher.pid(), SIGTERM);
    EXPECT_EQ(launcher.wait_for(60s), (ExitStatus{143, 0}));
    EXPECT_TRUE(probe.nobody_left());
  }
}

TEST(RunCommand, NobodyIsLeftWhenTheLauncherIsKilled) {
  Probe probe;
  const TemporaryFolder folder;  // takes what a killed launcher cannot remove
  Child launcher = start_launcher({"leave=here", "ignore=15", "print=ready", "sleep_ms=60000"},
                                  {{"TMPDIR", folder.path().string()}});
  wait_for_output(launcher);
  ::kill(launcher.pid(), SIGKILL);
  EXPECT_EQ(launcher.wait_for(60s), (ExitStatus{0, SIGKILL}));
  EXPECT_TRUE(probe.nobody_left());
}

TEST(RunCommand, PythonRanksMeetAtItsStore) {
  const auto ran = under_lockstep_run(2, {LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR "/tests/cli/torch_ranks.py"});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(lines_of(ran.out),
              UnorderedElementsAre("[rank 0] sum 3 mean gradient 1.5", "[rank 1] sum 3 mean gradient 1.5"));
}

TEST(RunCommand, ShowsThePythonTracebackOfTheFirstFailure) {
  const auto ran = under_lockstep_run(2, {LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR "/tests/cli/torch_ranks.py", "fail"});
  EXPECT_EQ(ran.status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("lockstep run: rank 1"), HasSubstr("    ValueError: rank 1 was told to fail")));
}

}  // namespace
}  // namespace lockstep::test
