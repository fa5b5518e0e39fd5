// The launcher's loop with real processes as ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/launch_ranks.h>

#include "cluster/probe.h"
#include "support/forks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>
#include <sstream>
#include <utility>

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

struct Ran {
  LaunchResult result;
  std::string out;
  std::string err;
};

std::string content(int fd) {
  std::string text(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

LaunchOptions options_for(int ranks, std::vector<std::string> actions) {
  LaunchOptions options;
  options.program.command = std::move(actions);
  options.program.command.insert(options.program.command.begin(), LOCKSTEP_RANK_PROGRAM);
  options.processes = ranks;
  options.environment = {{"PATH", "/usr/bin:/bin"}, {"OMP_NUM_THREADS", "1"}};
  options.ending.grace = 30s;
  return options;
}

/// What one rank waits for and another says.
class Sign {
 public:
  std::string make(int rank) const { return fmt::format("{}:make={}", rank, file_); }
  std::string await(int rank) const { return fmt::format("{}:await={}", rank, file_); }

 private:
  const TemporaryFolder folder_;
  const std::string file_ = (folder_.path() / "sign").string();
};

Ran run(LaunchOptions options, Watching watching = {}) {
  const TemporaryFolder folder;
  const UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  Launch job;
  job.ranks = options.processes;
  job.master_port = 1;
  job.run_id = "test";
  job.folder = folder.path();
  options.out = out.get();
  options.err = err.get();
  Ran ran;
  ran.result = supervise(options, job, {}, {}, {}, std::move(watching));
  ran.out = content(out.get());
  ran.err = content(err.get());
  return ran;
}

Ran run(int ranks, std::vector<std::string> actions) { return run(options_for(ranks, std::move(actions))); }

TEST(Supervise, PassesOnOutputWithThePrefixOfItsRank) {
  const Ran ran = run(2, {"0:print=zero", "1:print=one", "1:error=uno", "0:raw=no end"});
  EXPECT_EQ(ran.result.exit_code, 0);
  EXPECT_EQ(ran.result.report, "");
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[rank 0] zero", "[rank 0] no end", "[rank 1] one"));
  EXPECT_EQ(ran.err, "[rank 1] uno\n");
}

TEST(Supervise, PassesOnBytesUntouchedWithoutThePrefix) {
  LaunchOptions options = options_for(1, {"fill=200000", "raw=\xff\x01\r\nend"});
  options.prefix.shown = false;
  const Ran ran = run(options);
  EXPECT_EQ(ran.out, std::string(200'000, 'x') + "\xff\x01\r\nend");
}

TEST(Supervise, LosesNoLineOfMany) {
  const Ran ran = run(2, {"lines=5000"});
  std::vector<int> next(2, 0);
  for (const std::string& line : lines_of(ran.out)) {
    const int rank = line.starts_with("[rank 1] ") ? 1 : 0;
    ASSERT_EQ(line, fmt::format("[rank {}] line {}", rank, next[static_cast<std::size_t>(rank)]++));
  }
  EXPECT_THAT(next, ElementsAre(5000, 5000));
}

TEST(Supervise, GivesEachRankItsEnvironment) {
  const Ran ran = run(2, {"env=RANK", "env=WORLD_SIZE", "env=MASTER_ADDR", "env=TORCHELASTIC_USE_AGENT_STORE"});
  EXPECT_THAT(
      lines_of(ran.out),
      UnorderedElementsAre("[rank 0] RANK=0", "[rank 0] WORLD_SIZE=2", "[rank 0] MASTER_ADDR=127.0.0.1",
                           "[rank 0] TORCHELASTIC_USE_AGENT_STORE=True", "[rank 1] RANK=1", "[rank 1] WORLD_SIZE=2",
                           "[rank 1] MASTER_ADDR=127.0.0.1", "[rank 1] TORCHELASTIC_USE_AGENT_STORE=True"));
}

// Where ranks could have more than a core each.
TEST(Supervise, SaysOnceThatItLimitsThreads) {
  LaunchOptions options = options_for(2, {"env=OMP_NUM_THREADS"});
  options.environment.erase("OMP_NUM_THREADS");
  const Ran ran = run(options);
  if (usable_cpus() >= 4) {
    EXPECT_THAT(lines_of(ran.err),
                ElementsAre(AllOf(HasSubstr("OMP_NUM_THREADS is not set"), HasSubstr("system.threads"))));
  } else {
    EXPECT_EQ(ran.err, "");
  }
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[rank 0] OMP_NUM_THREADS=1", "[rank 1] OMP_NUM_THREADS=1"));
}

TEST(Supervise, ARankThatFailsEndsTheOthers) {
  test::Probe probe;
  const Ran ran = run(3, {"1:sleep_ms=100", "1:error=it broke", "1:exit=3", "sleep_ms=60000"});
  EXPECT_EQ(ran.result.exit_code, 3);
  EXPECT_EQ(ran.result.first_failed, 1);
  EXPECT_THAT(ran.result.report, AllOf(HasSubstr("rank 1"), HasSubstr("exit code 3"), HasSubstr("    it broke\n")));
  EXPECT_EQ(ran.result.ends[0].status, (ExitStatus{0, SIGTERM}));
  EXPECT_EQ(ran.result.ends[0].asked, SIGTERM);
  EXPECT_EQ(ran.result.ends[1].asked, 0);
  EXPECT_TRUE(probe.nobody_left());
}

TEST(Supervise, ReportsARankThatIsKilled) {
  const Ran ran = run(2, {"0:kill_self=9", "sleep_ms=60000"});
  EXPECT_EQ(ran.result.exit_code, 137);
  EXPECT_EQ(ran.result.first_failed, 0);
  EXPECT_THAT(ran.result.report, HasSubstr("signal 9 (SIGKILL)"));
}

TEST(Supervise, TakesTheReasonFromTheErrorFile) {
  LaunchOptions options =
      options_for(2, {"1:note=disk full", "1:sleep_ms=100", "1:exit=1", "0:lost_peer=rank 1 went", "0:exit=1"});
  options.ending.settle = 30s;
  const Ran ran = run(options);
  EXPECT_EQ(ran.result.first_failed, 1) << ran.result.report;
  EXPECT_THAT(ran.result.report,
              AllOf(HasSubstr("reason: [test] disk full\n"), HasSubstr("because it lost another rank")));
}

TEST(Supervise, KillsARankThatWillNotEnd) {
  test::Probe probe;
  const Sign deaf;
  LaunchOptions options = options_for(2, {"1:ignore=15", deaf.make(1), deaf.await(0), "0:exit=4", "sleep_ms=60000"});
  options.ending.grace = 300ms;
  const Ran ran = run(options);
  EXPECT_EQ(ran.result.exit_code, 4);
  EXPECT_EQ(ran.result.ends[1].status, (ExitStatus{0, SIGKILL}));
  EXPECT_TRUE(probe.nobody_left());
}

TEST(Supervise, SaysWhomItWaitsFor) {
  const Sign deaf;
  LaunchOptions options = options_for(
      3, {"1:ignore=15", deaf.make(1), deaf.await(0), "0:exit=4", "1:sleep_ms=5000", "1:exit=0", "sleep_ms=60000"});
  options.ending.grace = 60s;
  EXPECT_THAT(run(options).err, ContainsRegex("lockstep run: waiting for rank 1 to end, after SIGTERM [2-9] s ago; "
                                              "they are killed in [0-9]+ s \\(--grace\\), or at the next signal\n"));
}

TEST(Supervise, EndsAStoppedRank) {
  const Ran ran = run(2, {"1:kill_self=19", "0:sleep_ms=200", "0:exit=6", "sleep_ms=60000"});
  EXPECT_EQ(ran.result.exit_code, 6);
  EXPECT_EQ(ran.result.ends[1].status, (ExitStatus{0, SIGTERM}));
}

TEST(Supervise, ForwardsASignalToAllRanks) {
  // Rank 0 stands in for a user who signals the launcher once rank 1 is ready.
  const Sign ready;
  const Ran ran = run(2, {"exit7_on=15", ready.make(1), ready.await(0), "0:kill_parent=15", "sleep_ms=60000"});
  EXPECT_EQ(ran.result.exit_code, 7);
  EXPECT_EQ(ran.result.first_failed, std::nullopt);
  EXPECT_THAT(ran.result.report, HasSubstr("ended by SIGTERM"));
  EXPECT_EQ(ran.result.ends[1].status, (ExitStatus{7, 0}));

  EXPECT_EQ(run(2, {"0:sleep_ms=100", "0:kill_parent=2", "sleep_ms=60000"}).result.exit_code, 130);
}

TEST(Supervise, StopsItsRanksWhenAskedTo) {
  test::Probe probe;
  Pipe pipe = make_pipe();
  LaunchOptions options = options_for(2, {"sleep_ms=60000"});
  options.stop_fd = pipe.read_end.get();
  pipe.write_end.reset();
  const Ran ran = run(options);
  EXPECT_TRUE(ran.result.stopped);
  EXPECT_EQ(ran.result.user_signal, std::nullopt);
  EXPECT_EQ(ran.result.ends[0].asked, SIGTERM);
  EXPECT_EQ(ran.result.ends[1].status, (ExitStatus{0, SIGTERM}));
  EXPECT_TRUE(probe.nobody_left());
  EXPECT_FALSE(run(1, {"print=x"}).result.stopped);
}

TEST(Supervise, ASecondSignalKills) {
  const Sign deaf;
  const Ran ran = run(2, {"ignore=2", deaf.make(1), deaf.await(0), "0:kill_parent=2", "0:sleep_ms=200",
                          "0:kill_parent=2", "sleep_ms=60000"});
  EXPECT_EQ(ran.result.exit_code, 130);
  EXPECT_EQ(ran.result.ends[0].status, (ExitStatus{0, SIGKILL}));
  EXPECT_EQ(ran.result.ends[1].status, (ExitStatus{0, SIGKILL}));
}

TEST(Supervise, PutsSignalsAndSubreaperBack) {
  struct sigaction before {};
  ::sigaction(SIGTERM, nullptr, &before);
  run(1, {"print=x"});
  struct sigaction after {};
  ::sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
  int subreaper = -1;
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  EXPECT_EQ(subreaper, 0);
}

TEST(Supervise, EndsWhatRanksLeaveBehind) {
  for (const std::string where : {"leave=here", "leave=away"}) {
    for (const std::string ignore : {"ignore=10", "ignore=15"}) {  // SIGUSR1 does not matter, SIGTERM does
      test::Probe probe;
      LaunchOptions options = options_for(2, {ignore, where, "print=done"});
      options.ending.grace = 200ms;
      const Ran ran = run(options);
      EXPECT_EQ(ran.result.exit_code, 0) << where << ran.result.report;
      EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[rank 0] done", "[rank 1] done"));
      EXPECT_TRUE(probe.nobody_left()) << where << " " << ignore;
    }
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not reaped";
}

TEST(Supervise, LeavesItsCallersOtherChildrenAlone) {
  ChildOptions other;
  other.arguments = {LOCKSTEP_RANK_PROGRAM, "sleep_ms=60000"};
  Child child(other);
  run(1, {"print=x"});
  EXPECT_EQ(child.poll(), std::nullopt);
}

TEST(Supervise, NobodyIsLeftWhenTheLauncherItselfIsKilled) {
  test::Probe probe;
  const TemporaryFolder folder;  // takes what a killed launcher cannot remove
  test::ForkOptions options;
  options.environment = {{"TMPDIR", folder.path().string()}};
  const auto outcomes = test::fork_outcomes(1, options, [](int) {
    run(2, {"leave=here", "1:sleep_ms=300", "1:kill_parent=9", "sleep_ms=60000"});
  });
  EXPECT_EQ(outcomes[0].status, (ExitStatus{0, SIGKILL})) << test::describe(outcomes[0]);
  EXPECT_TRUE(probe.nobody_left());
}

TEST(Supervise, SaysWhatCannotBeRun) {
  LaunchOptions options = options_for(2, {});
  const auto expect_error = [&](std::vector<std::string> command, const std::string& words) {
    options.program.command = std::move(command);
    try {
      run(options);
      FAIL() << words;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  expect_error({"no-such-program"}, "'no-such-program'");
  expect_error({"./no/such/program"}, "No such file");
  expect_error({"/etc/passwd"}, "Permission denied");
  expect_error({}, "no program");
}

TEST(Supervise, GoesOnWhenNobodyReadsItsOutput) {
  const TemporaryFolder folder;
  Pipe closed = make_pipe();
  closed.read_end.reset();
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  LaunchOptions options = options_for(2, {"lines=1000", "error=done"});
  options.out = closed.write_end.get();
  options.err = err.get();
  Launch job;
  job.ranks = 2;
  job.folder = folder.path();
  EXPECT_EQ(supervise(options, job).exit_code, 0);
  EXPECT_THAT(lines_of(content(err.get())),
              UnorderedElementsAre("[rank 0] done", "[rank 1] done", HasSubstr("stdout was closed")));
}

TEST(Supervise, ReportsItsRanksToWhoeverWatches) {
  std::vector<dashboard::JobReport> reports;
  Watching watching;
  watching.round = 4;
  watching.report = [&](dashboard::JobReport report) { reports.push_back(std::move(report)); };
  const Ran ran =
      run(options_for(2, {"print=hello", "error=dear", "0:sleep_ms=60000", "1:sleep_ms=2000", "1:exit=3"}), watching);
  EXPECT_EQ(ran.result.exit_code, 3);
  ASSERT_GE(reports.size(), 2U) << "the first, and one for the ends";
  EXPECT_EQ(reports.front().ranks.at(0).state, dashboard::ProcessState::running);
  const auto& last = reports.back();
  EXPECT_EQ(last.round, 4);
  EXPECT_EQ(last.world, 2);
  EXPECT_EQ(last.hosts, 1);
  ASSERT_EQ(last.ranks.size(), 2U);
  EXPECT_EQ(last.ranks[0].state, dashboard::ProcessState::ended) << "the launcher wanted it";
  EXPECT_EQ(last.ranks[0].end, "signal 15 (SIGTERM), after the launcher's signal");
  EXPECT_EQ(last.ranks[1].rank, 1);
  EXPECT_EQ(last.ranks[1].pid, ran.result.ends[1].pid);
  EXPECT_EQ(last.ranks[1].state, dashboard::ProcessState::failed);
  EXPECT_EQ(last.ranks[1].end, "exit code 3");
  EXPECT_EQ(last.ranks[1].status_file.filename(), "status");
  std::vector<std::string> lines;
  for (const auto& report : reports) lines = report.ranks.at(1).lines.value_or(lines);
  EXPECT_THAT(lines, UnorderedElementsAre("hello", "dear")) << "of both streams";
}

TEST(Supervise, KillsARankWhenThoseWhoWatchAskForIt) {
  const Pipe pipe = make_pipe();
  std::optional<dashboard::KillRequest> request;
  int asked = 0;
  std::vector<std::string> answers;
  std::vector<std::string> decisions;
  Watching watching;
  watching.requests_fd = pipe.read_end.get();
  watching.report = [&](const dashboard::JobReport& report) {
    decisions.insert(decisions.end(), report.decisions.begin(), report.decisions.end());
    if (asked == 2) return;
    // First another process than the rank's, then that of the rank.
    request = dashboard::KillRequest{7, 1, report.ranks.at(1).pid + asked - 1};
    ++asked;
    EXPECT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
  };
  watching.take_request = [&] {
    char byte = 0;
    if (!request) return request;
    EXPECT_EQ(::read(pipe.read_end.get(), &byte, 1), 1);
    return std::exchange(request, std::nullopt);
  };
  watching.answer = [&](const dashboard::KillRequest& of, bool ok, const std::string& text) {
    EXPECT_EQ(of.page, 7U);
    answers.push_back(fmt::format("{} {}", ok, text));
  };
  const Ran ran = run(options_for(2, {"sleep_ms=60000"}), watching);
  EXPECT_EQ(ran.result.exit_code, 137);
  EXPECT_EQ(ran.result.first_failed, 1) << "a failure, and not an end that the launcher wanted";
  const auto pid = ran.result.ends[1].pid;
  EXPECT_THAT(answers, ElementsAre(fmt::format("false the process {} of rank 1 has ended", pid - 1),
                                   fmt::format("true rank 1 (pid {}) was sent SIGKILL", pid)));
  EXPECT_THAT(decisions, ElementsAre(fmt::format("rank 1 (pid {}) is killed: the live page asked for it", pid)));
}

TEST(Supervise, ASlowReaderDoesNotStopTheSupervision) {
  const TemporaryFolder folder;
  const Pipe stuck = make_pipe();  // nobody reads it
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  LaunchOptions options = options_for(2, {"0:lines=1000000", "1:sleep_ms=500", "1:kill_parent=15", "1:sleep_ms=60000"});
  options.out = stuck.write_end.get();
  options.err = err.get();
  Launch job;
  job.ranks = 2;
  job.folder = folder.path();
  // One more signal gives up on the output that the reader does not take.
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    ::alarm(2);
    ::signal(SIGALRM, [](int) { ::kill(::getpid(), SIGTERM); });
    EXPECT_EQ(supervise(options, job).exit_code, 143);
  });
  test::expect_all_ok(outcomes);
}

}  // namespace
}  // namespace lockstep::cluster
