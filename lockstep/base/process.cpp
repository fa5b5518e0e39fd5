// A child process: polled through its pidfd, signalled by process group, and reaped in the destructor only.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>

#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

// Milliseconds until `deadline` for poll(2), rounded up so that a wait never ends early.
int poll_time(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  constexpr std::int64_t kLongest = 1 << 30;
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest));
}

ExitStatus from_siginfo(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {info.si_status, 0};
  return {0, info.si_status};
}

}  // namespace

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : fmt::format("signal {}", signal);
}

std::string describe(const ExitStatus& status) {
  if (status.signal == 0) return fmt::format("exit code {}", status.code);
  return fmt::format("signal {} ({})", status.signal, signal_name(status.signal));
}

Child::Child(const ChildOptions& options) : Child(detail::spawn(options)) {}

Child::Child(RunningChild running) noexcept
    : pid_(running.pid), pidfd_(std::move(running.pidfd)), out_(std::move(running.out)), err_(std::move(running.err)) {}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    kill_and_reap();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    out_ = std::move(other.out_);
    err_ = std::move(other.err_);
    status_ = std::exchange(other.status_, std::nullopt);
  }
  return *this;
}

Child::~Child() { kill_and_reap(); }

std::optional<ExitStatus> Child::poll() {
  if (status_ || pid_ < 0) return status_;
  siginfo_t info{};
  // WNOWAIT keeps the zombie, so that the kernel does not reuse its process id and group id.
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    fail(ErrorKind::io, "process", "cannot wait for process {}: {} (does the program ignore SIGCHLD?)", pid_,
         std::generic_category().message(errno));
  }
  if (info.si_pid != 0) status_ = from_siginfo(info);
  return status_;
}

std::optional<ExitStatus> Child::wait_for(std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!poll()) {
    const int left = poll_time(deadline);
    if (left == 0) return std::nullopt;
    pollfd watched{pidfd_.get(), POLLIN, 0};
    ::poll(&watched, 1, left);
  }
  return status_;
}

void Child::signal_group(int signal) {
  // The child is not reaped before the destructor, so its group id cannot have been reused. ESRCH: the group has no
  // process left.
  if (pid_ > 0 && ::kill(-pid_, signal) != 0 && errno != ESRCH) {
    fail(ErrorKind::io, "process", "cannot send {} to the group of process {}: {}", signal_name(signal), pid_,
         std::generic_category().message(errno));
  }
}

ExitStatus Child::stop(std::chrono::milliseconds grace) {
  signal_group(SIGTERM);
  wait_for(grace);
  signal_group(SIGKILL);
  const auto status = wait_for(std::chrono::minutes(1));
  // Only a process stuck in the kernel (a dead disk or network file system) survives SIGKILL that long.
  if (!status) fail(ErrorKind::timeout, "process", "process {} did not end within 60 s of SIGKILL", pid_);
  return *status;
}

void Child::kill_and_reap() noexcept {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 && errno == EINTR) {
  }
  pid_ = -1;
  pidfd_.reset();
}

}  // namespace lockstep
