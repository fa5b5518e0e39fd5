// The mpi backend under a launcher of its own, for jobs that end badly.
#include <lockstep/base/process.h>

#include "comm/suite.h"
#include "support/open_mpi.h"

#include <chrono>
#include <cstdlib>
#include <string>

namespace lockstep::test {
namespace {

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Mpi, ReasonOfTheRankThatGivesUpIsSeenByAll) {
  ChildOptions options;
  options.arguments = {LOCKSTEP_TEST_MPIRUN, "-n", "3", LOCKSTEP_TEST_RANK_PROGRAM, "abort", "1"};
  options.out = ChildStream::pipe;
  options.err = ChildStream::pipe;
  options.environment = environment_for_mpirun();
  const auto ended = run_and_capture(options, std::chrono::seconds(180));
  EXPECT_FALSE(ended.status.ok());
  EXPECT_EQ(times(ended.out, "saw: [barrier] barrier 2 of group \"world\""), 2u) << ended.out << ended.err;
  EXPECT_EQ(times(ended.out, "rank 1 (pid"), 2u) << ended.out;
  EXPECT_EQ(times(ended.out, "aborted: out of luck at step 7"), 2u) << ended.out;
}

// The handlers that MPI needs at the end of a process are a forked child's, too.
TEST(Mpi, AForkedChildExitsByItself) {
  ChildOptions options;
  options.arguments = {LOCKSTEP_TEST_MPIRUN, "-n", "2", LOCKSTEP_TEST_RANK_PROGRAM, "fork", "1"};
  options.out = ChildStream::pipe;
  options.err = ChildStream::pipe;
  options.environment = environment_for_mpirun();
  const auto ended = run_and_capture(options, std::chrono::seconds(180));
  EXPECT_TRUE(ended.status.ok()) << ended.err;
  EXPECT_EQ(times(ended.out, "no error"), 2u) << ended.out << ended.err;
}

// Each process is then alone as far as MPI knows; without a word they would be N jobs of one rank.
TEST(Mpi, TheLauncherOfAnotherMpiIsAnError) {
  const std::string launcher = LOCKSTEP_TEST_OTHER_MPIEXEC;
  if (launcher.empty()) GTEST_SKIP() << "there is no second MPI (Debian: mpich beside Open MPI)";
  ChildOptions options;
  options.arguments = {launcher, "-n", "2", LOCKSTEP_TEST_RANK_PROGRAM, "abort", "1"};
  options.environment = environment_for_mpirun();
  const auto ended = run_and_capture(options, std::chrono::seconds(180));
  EXPECT_FALSE(ended.status.ok());
  for (const auto* words :
       {"gives rank 0 of 2, but MPI reports rank 0 of 1", "gives rank 1 of 2", "launcher belongs to another MPI"}) {
    EXPECT_NE(ended.out.find(words), std::string::npos) << words << " is missing in: " << ended.out << ended.err;
  }
}

}  // namespace
}  // namespace lockstep::test
