#include "support/forks.h"

#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/unique_fd.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

namespace lockstep::test {
namespace {

using Clock = std::chrono::steady_clock;

// Counts what goes wrong in a child from its start; GoogleTest itself prints it, into the captured output.
class FailureCounter : public testing::EmptyTestEventListener {
 public:
  explicit FailureCounter(std::shared_ptr<int> count) : count_(std::move(count)) {}
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.passed()) ++*count_;
  }

 private:
  std::shared_ptr<int> count_;
};

void redirect_output(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || ::dup2(fd, STDOUT_FILENO) < 0 || ::dup2(fd, STDERR_FILENO) < 0) ::_exit(3);
  ::close(fd);
  // A child that is killed must not take its last words with it.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
}

[[noreturn]] void run_child(int rank, pid_t parent, const std::filesystem::path& output, const ForkOptions& options,
                            const std::function<void(int)>& body) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(3);  // the parent died before the line above
  redirect_output(output);
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);

  const auto failures = std::make_shared<int>(0);
  testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<FailureCounter>(failures).release());
  try {
    body(rank);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "exception: " << error.what();
  } catch (...) {
    ADD_FAILURE() << "an exception that is no std::exception";
  }
  std::fflush(nullptr);
  // Not exit(): what the parent registered to happen at its end is not for a child to do.
  ::_exit(*failures == 0 ? 0 : 1);
}

// A forked child; its whole process group dies with this handle.
class Forked {
 public:
  Forked(int rank, const std::filesystem::path& output, const ForkOptions& options,
         const std::function<void(int)>& body) {
    std::fflush(nullptr);  // or the child prints it again
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail(ErrorKind::io, "fork_ranks", "cannot fork rank {}: {}", rank, std::strerror(errno));
    if (pid_ == 0) run_child(rank, parent, output, options, body);
    ::setpgid(pid_, pid_);  // both do it, so that it holds whoever comes first
    pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (!pidfd_) {
      reap(true);
      fail(ErrorKind::io, "fork_ranks", "pidfd_open: {}", std::strerror(errno));
    }
  }
  Forked(Forked&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), status_(other.status_) {}
  Forked& operator=(Forked&&) = delete;
  ~Forked() {
    if (pid_ > 0 && !status_) reap(true);
  }

  int end_fd() const { return status_ ? -1 : pidfd_.get(); }
  bool ended() const { return status_.has_value(); }
  ExitStatus status() const { return *status_; }

  // Waits for the end, after killing the child or not, then kills what it left in its process group.
  void reap(bool kill_first) {
    if (kill_first) ::kill(-pid_, SIGKILL);
    // The zombie keeps the number of the group from being given to others until it is reaped below.
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    ::kill(-pid_, SIGKILL);
    int raw = 0;
    while (::waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
    }
    status_ = WIFSIGNALED(raw) ? ExitStatus{0, WTERMSIG(raw)} : ExitStatus{WEXITSTATUS(raw), 0};
  }

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<ExitStatus> status_;
};

// Blocks until some child ended or the deadline passed; false for the latter.
bool wait_for_any(const std::vector<Forked>& children, Clock::time_point deadline) {
  std::vector<pollfd> waited_for;
  for (const auto& child : children) waited_for.push_back({child.end_fd(), POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0) return false;
  return ::poll(waited_for.data(), waited_for.size(), static_cast<int>(left)) != 0;
}

void reap_ended(std::vector<Forked>& children) {
  for (auto& child : children) {
    pollfd one{child.end_fd(), POLLIN, 0};
    if (!child.ended() && ::poll(&one, 1, 0) == 1) child.reap(false);
  }
}

bool all_ended(const std::vector<Forked>& children) {
  for (const auto& child : children) {
    if (!child.ended()) return false;
  }
  return true;
}

std::string read_all(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

std::vector<Outcome> fork_outcomes(int n, const ForkOptions& options, const std::function<void(int)>& body) {
  const TemporaryFolder folder("lockstep-test");
  const auto output_of = [&](int rank) { return folder.path() / fmt::format("rank.{}.out", rank); };
  const auto deadline = Clock::now() + options.deadline;

  std::vector<Forked> children;
  children.reserve(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) children.emplace_back(rank, output_of(rank), options, body);

  while (!all_ended(children) && wait_for_any(children, deadline)) reap_ended(children);

  std::vector<Outcome> outcomes;
  for (int rank = 0; rank < n; ++rank) {
    auto& child = children[static_cast<std::size_t>(rank)];
    const bool late = !child.ended();
    if (late) child.reap(true);
    outcomes.push_back({rank, child.status(), late, read_all(output_of(rank))});
  }
  return outcomes;
}

std::string describe(const Outcome& outcome) {
  std::ostringstream text;
  text << "rank " << outcome.rank << ": "
       << (outcome.hit_deadline ? "killed at the deadline" : lockstep::describe(outcome.status));
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) text << "\n    " << line;
  return text.str();
}

void expect_all_ok(const std::vector<Outcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    if (!outcome.ok()) ADD_FAILURE() << describe(outcome);
  }
}

void fork_ranks(int n, const ForkOptions& options, const std::function<void(int)>& body) {
  expect_all_ok(fork_outcomes(n, options, body));
}

}  // namespace lockstep::test
