#include <fcntl.h>
#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "support/forks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

constexpr auto kLong = 180s;  // a deadline that only a hang reaches

ChildOptions shell(const std::string& script) { return {.arguments = {"/bin/sh", "-c", script}}; }

Captured capture(const std::string& script) { return run_and_capture(shell(script), kLong); }

// The next line a child writes.
std::string read_line(UniqueFd& fd) {
  std::string line;
  for (char c = 0; ::read(fd.get(), &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

// Whether a process is there and no zombie.
bool is_running(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return (in >> number >> name >> state) && state != "Z";
}

bool ends_soon(pid_t pid) {
  for (int i = 0; i < 6000 && is_running(pid); ++i) std::this_thread::sleep_for(10ms);
  return !is_running(pid);
}

TEST(Process, TellsHowItEnded) {
  EXPECT_EQ(capture("exit 0").status, (ExitStatus{0, 0}));
  EXPECT_TRUE(capture("true").status.ok());
  EXPECT_EQ(capture("exit 3").status, (ExitStatus{3, 0}));
  EXPECT_EQ(capture("kill -9 $$").status, (ExitStatus{0, 9}));
  EXPECT_FALSE((ExitStatus{0, 9}).ok());
}

TEST(Process, DescribesExitStatuses) {
  EXPECT_EQ(describe(ExitStatus{0, 0}), "exit code 0");
  EXPECT_EQ(describe(ExitStatus{3, 0}), "exit code 3");
  EXPECT_EQ(describe(ExitStatus{0, SIGKILL}), "signal 9 (SIGKILL)");
  EXPECT_EQ(describe(ExitStatus{0, SIGSEGV}), "signal 11 (SIGSEGV)");
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(99), "signal 99");
}

TEST(Process, PassesArgumentsUntouched) {
  const auto result = run_and_capture({.arguments = {"printf", "%s|", "a b", "", "$HOME", "*", "'\""}}, kLong);
  EXPECT_EQ(result.out, "a b||$HOME|*|'\"|");
}

TEST(Process, KeepsTheStreamsApart) {
  const auto result = capture("echo out; echo err >&2");
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST(Process, CollectsMoreThanAPipeHolds) {
  const auto result = capture("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2");
  EXPECT_EQ(result.out.size(), 3000000u);
  EXPECT_EQ(result.err.size(), 2000000u);
}

TEST(Process, ReadsNothingFromItsInput) { EXPECT_EQ(capture("cat; echo end").out, "end\n"); }

TEST(Process, HasTheEnvironmentItIsGiven) {
  ChildOptions options = {.arguments = {"/usr/bin/env"}};
  options.environment = Environment{{"ONE", "1"}, {"TWO", "a=b c"}};
  EXPECT_EQ(run_and_capture(options, kLong).out, "ONE=1\nTWO=a=b c\n");
}

TEST(Process, LooksItsProgramUpInItsOwnPath) {
  const TemporaryFolder folder;
  const auto program = folder.path() / "lockstep-test-program";
  std::ofstream(program) << "#!/bin/sh\necho found\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  ChildOptions options = {.arguments = {"lockstep-test-program"}};
  options.environment = Environment{{"PATH", "/no/such/folder:" + folder.path().string()}};
  EXPECT_EQ(run_and_capture(options, kLong).out, "found\n");
  options.environment = Environment{{"PATH", "/no/such/folder"}};
  expect_error(ErrorKind::invalid_argument, {"lockstep-test-program", "PATH=/no/such/folder"},
               [&] { Child child(options); });
}

TEST(Process, RunsInTheFolderItIsGiven) {
  const TemporaryFolder folder;
  ChildOptions options = shell("pwd -P");
  options.working_directory = folder.path();
  EXPECT_EQ(run_and_capture(options, kLong).out, std::filesystem::canonical(folder.path()).string() + "\n");
  options.working_directory = "/no/such/folder";
  expect_error(ErrorKind::io, {"/bin/sh", "/no/such/folder", "No such file"}, [&] { Child child(options); });
}

TEST(Process, SaysWhyAProgramCannotRun) {
  const TemporaryFolder folder;
  const auto plain = folder.path() / "plain";
  std::ofstream(plain) << "text";
  expect_error(ErrorKind::invalid_argument, {"/no/such/program", "No such file"},
               [] { Child child({.arguments = {"/no/such/program"}}); });
  expect_error(ErrorKind::invalid_argument, {plain.c_str(), "Permission denied"},
               [&] { Child child({.arguments = {plain}}); });
  std::filesystem::permissions(plain, std::filesystem::perms::owner_all);
  expect_error(ErrorKind::invalid_argument, {plain.c_str(), "Exec format"},
               [&] { Child child({.arguments = {plain}}); });
  expect_error(ErrorKind::invalid_argument, {"no program"}, [] { Child child(ChildOptions{}); });
}

TEST(Process, WaitsNoLongerThanAsked) {
  Child child(shell("exec sleep 1000"));
  EXPECT_EQ(child.poll(), std::nullopt);
  EXPECT_EQ(child.wait_for(20ms), std::nullopt);
  child.signal_group(SIGINT);
  EXPECT_EQ(child.wait_for(kLong), (ExitStatus{0, SIGINT}));
  EXPECT_EQ(child.poll(), (ExitStatus{0, SIGINT}));
  EXPECT_EQ(child.wait_for(0ms), (ExitStatus{0, SIGINT}));
}

TEST(Process, SignalsItsWholeGroup) {
  ChildOptions options = shell("sleep 1000 & echo $!; wait");
  options.out = ChildStream::pipe;
  Child child(options);
  const pid_t grandchild = std::stoi(read_line(child.out()));
  EXPECT_EQ(::getpgid(grandchild), child.pid());
  child.signal_group(SIGTERM);
  EXPECT_EQ(child.wait_for(kLong), (ExitStatus{0, SIGTERM}));
  EXPECT_TRUE(ends_soon(grandchild));
}

TEST(Process, ReachesItsGroupAfterItsOwnEnd) {
  ChildOptions options = shell("sleep 1000 & echo $!");
  options.out = ChildStream::pipe;
  Child child(options);
  const pid_t grandchild = std::stoi(read_line(child.out()));
  EXPECT_EQ(child.wait_for(kLong), (ExitStatus{0, 0}));
  EXPECT_TRUE(is_running(grandchild));
  child.signal_group(SIGKILL);
  EXPECT_TRUE(ends_soon(grandchild));
}

TEST(Process, LeavesNobodyBehind) {
  pid_t pid = 0;
  pid_t grandchild = 0;
  {
    ChildOptions options = shell("trap '' TERM; sleep 1000 & echo $!; wait");
    options.out = ChildStream::pipe;
    Child child(options);
    pid = child.pid();
    grandchild = std::stoi(read_line(child.out()));
  }
  EXPECT_EQ(::kill(pid, 0), -1) << "the child was not reaped";
  EXPECT_TRUE(ends_soon(grandchild));
}

TEST(Process, StopsTheStubbornWithSigkill) {
  ChildOptions options = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
  options.out = ChildStream::pipe;
  Child stubborn(options);
  EXPECT_EQ(read_line(stubborn.out()), "ready");
  EXPECT_EQ(stubborn.stop(50ms), (ExitStatus{0, SIGKILL}));
  Child polite(shell("exec sleep 1000"));
  EXPECT_EQ(polite.stop(kLong), (ExitStatus{0, SIGTERM}));
}

TEST(Process, MovesWithItsChild) {
  Child first(shell("exit 4"));
  const pid_t pid = first.pid();
  Child second = std::move(first);
  EXPECT_EQ(second.pid(), pid);
  EXPECT_EQ(second.wait_for(kLong), (ExitStatus{4, 0}));
  second = Child(shell("exit 5"));
  EXPECT_EQ(second.wait_for(kLong), (ExitStatus{5, 0}));
}

TEST(Process, DiesWithItsParent) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "pid";
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    ChildOptions options = shell("echo ready; exec sleep 1000");
    options.out = ChildStream::pipe;
    Child child(options);
    read_line(child.out());
    std::ofstream(file) << child.pid() << std::endl;
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(outcomes.front().status.signal, SIGKILL);
  pid_t pid = 0;
  ASSERT_TRUE(std::ifstream(file) >> pid);
  EXPECT_TRUE(ends_soon(pid));
}

TEST(Process, InheritsNeitherClosedOnExecNorBlockedSignals) {
  const Pipe pipe = make_pipe();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto result = capture(
      fmt::format("test -e /proc/$$/fd/{} || echo closed; exec grep SigBlk /proc/self/status", pipe.read_end.get()));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(result.out, "closed\nSigBlk:\t0000000000000000\n");
}

TEST(Process, WorksWithClosedStandardStreams) {
  test::fork_ranks(1, {}, [](int) {
    const int kept = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    const auto result = capture("echo out; echo err >&2");
    ::dup2(kept, STDOUT_FILENO);
    ::dup2(kept, STDERR_FILENO);
    EXPECT_EQ(result.out, "out\n");
    EXPECT_EQ(result.err, "err\n");
  });
}

TEST(Process, DiscardsStreamsOnRequest) {
  ChildOptions options = shell("echo lost; echo lost >&2");
  options.out = ChildStream::discard;
  options.err = ChildStream::discard;
  Child child(options);
  EXPECT_FALSE(child.out());
  EXPECT_EQ(child.wait_for(kLong), (ExitStatus{0, 0}));
}

TEST(Process, CaptureKillsWhatTakesTooLong) {
  expect_error(ErrorKind::timeout, {"/bin/sh", "2000 ms", "so far", "and this", "  sh (pid ", "    sleep (pid "},
               [] { run_and_capture(shell("echo so far; echo and this >&2; sleep 1000"), 2s); });
}

TEST(Process, CaptureDoesNotWaitForThoseLeftBehind) {
  const auto result = capture("sleep 1000 & echo done");
  EXPECT_EQ(result.out, "done\n");
  EXPECT_TRUE(result.status.ok());
}

TEST(Process, CanBeStartedFromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int> codes(8, -1);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    threads.emplace_back([&codes, i] { codes[i] = capture("exit " + std::to_string(i)).status.code; });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], static_cast<int>(i));
}

}  // namespace
}  // namespace lockstep
