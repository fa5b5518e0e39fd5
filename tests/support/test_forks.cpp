// The harness itself: it must not let a bad end of a rank pass, and must leave nothing running.
#include "support/forks.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

using namespace lockstep::test;
using namespace std::chrono_literals;

namespace {

TEST(Forks, EachRankRunsInItsOwnProcess) {
  const auto outcomes = fork_outcomes(3, {}, [](int rank) { std::printf("rank %d pid %d\n", rank, ::getpid()); });
  ASSERT_EQ(outcomes.size(), 3u);
  for (const auto& outcome : outcomes) {
    EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(outcome.output.rfind("rank " + std::to_string(outcome.rank) + " pid ", 0), 0u) << outcome.output;
    EXPECT_EQ(outcome.output.find(std::to_string(::getpid()) + "\n"), std::string::npos);
  }
}

TEST(Forks, EnvironmentIsSetInEveryRankAndNotHere) {
  fork_ranks(2, {.environment = {{"LOCKSTEP_FORKS_TEST", "yes"}}},
             [](int) { EXPECT_STREQ(std::getenv("LOCKSTEP_FORKS_TEST"), "yes"); });
  EXPECT_EQ(std::getenv("LOCKSTEP_FORKS_TEST"), nullptr);
}

TEST(Forks, FailedAssertionIsReportedWithRankAndText) {
  const auto outcomes = fork_outcomes(2, {}, [](int rank) { EXPECT_EQ(rank, 0) << "only the first is right"; });
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_EQ(outcomes[1].status.code, 1);
  EXPECT_NE(outcomes[1].output.find("only the first is right"), std::string::npos);
  EXPECT_NE(describe(outcomes[1]).find("rank 1: exit code 1"), std::string::npos);
}

// A test that should fail runs in a process of its own, whose end says whether it did.
Outcome failing_test(const std::function<void(int)>& body) {
  auto outcomes = fork_outcomes(1, {}, [&](int) { fork_ranks(2, {}, body); });
  return std::move(outcomes.front());
}

TEST(Forks, FailureInARankFailsTheTest) {
  const auto test = failing_test([](int rank) {
    std::fprintf(stderr, "said before\n");
    EXPECT_NE(rank, 1) << "a broken rule";
  });
  EXPECT_EQ(test.status.code, 1);
  for (const auto* words : {"rank 1: exit code 1", "a broken rule", "said before"}) {
    EXPECT_NE(test.output.find(words), std::string::npos) << test.output;
  }
  EXPECT_EQ(test.output.find("rank 0"), std::string::npos) << "rank 0 did nothing wrong: " << test.output;
}

TEST(Forks, ExceptionFailsTheTest) {
  const auto test = failing_test([](int rank) {
    if (rank == 1) throw std::runtime_error("thrown by the body");
  });
  EXPECT_EQ(test.status.code, 1);
  EXPECT_NE(test.output.find("thrown by the body"), std::string::npos) << test.output;
}

TEST(Forks, SkippingInARankFailsTheTest) {
  const auto outcomes = fork_outcomes(1, {}, [](int) { GTEST_SKIP() << "no reason"; });
  EXPECT_EQ(outcomes[0].status.code, 1);
}

TEST(Forks, ExitAndSignalAreTold) {
  const auto outcomes = fork_outcomes(3, {}, [](int rank) {
    if (rank == 1) ::_exit(7);
    if (rank == 2) ::raise(SIGKILL);
  });
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_EQ(outcomes[1].status, (lockstep::ExitStatus{7, 0}));
  EXPECT_EQ(outcomes[2].status, (lockstep::ExitStatus{0, SIGKILL}));
}

TEST(Forks, DeadlineKillsWhatStillRuns) {
  const auto outcomes = fork_outcomes(2, {.deadline = 2s}, [](int rank) {
    if (rank == 1) std::this_thread::sleep_for(1h);
  });
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_TRUE(outcomes[1].hit_deadline);
  EXPECT_NE(describe(outcomes[1]).find("deadline"), std::string::npos);
}

TEST(Forks, ProcessesStartedByARankDieWithIt) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::pause();
      ::_exit(0);
    }
    std::printf("%d", grandchild);
  });
  const auto grandchild = static_cast<pid_t>(std::stol(outcomes[0].output));
  // Killed, and then reaped by whoever adopted it.
  for (int i = 0; i < 6000 && ::kill(grandchild, 0) == 0; ++i) {
    ::waitpid(grandchild, nullptr, WNOHANG);
    std::string state;
    if (std::FILE* stat = std::fopen(("/proc/" + std::to_string(grandchild) + "/stat").c_str(), "r")) {
      char letter = '?';
      if (std::fscanf(stat, "%*d %*s %c", &letter) == 1) state = letter;
      std::fclose(stat);
    }
    if (state == "Z") return;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(::kill(grandchild, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(Forks, NoChildIsLeftBehind) {
  fork_outcomes(4, {.deadline = 100ms}, [](int) { ::pause(); });
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
