// A pidfd of a helper process, and its exit status read without reaping it; and a small forked process in a rank's
// group, which kills the group when the pipe from the launcher closes.
#include <lockstep/base/error.h>
#include <lockstep/cluster/processes/helper.h>

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace lockstep::cluster {
namespace {

/// The keeper's whole life. Forked from a process with threads, so only async-signal-safe calls.
[[noreturn]] void keep(pid_t group, int lifeline) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);  // these signals are meant for the group's ranks, not for the keeper
  ::prctl(PR_SET_NAME, "lockstep-keeper");
  if (::setpgid(0, group) != 0) ::_exit(1);
  // Keeps no descriptor of the launcher: neither its consoles nor the ends of its pipes.
  if (::dup2(lifeline, 0) != 0) ::_exit(1);
  ::close_range(1, ~0U, 0);
  char byte = 0;
  while (::read(0, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

}  // namespace

Helper watch_helper(std::string name, std::string without, pid_t pid) {
  Helper helper{std::move(name), std::move(without), pid};
  helper.end.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return helper;
}

std::optional<ExitStatus> end_of(const UniqueFd& process) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(process.get());
  if (::waitid(P_PIDFD, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return std::nullopt;
  return info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0} : ExitStatus{0, info.si_status};
}

GroupKeeper::GroupKeeper(pid_t group, const Lifeline& lifeline) : pid_(::fork()) {
  if (pid_ == 0) keep(group, lifeline.watched_end());
  if (pid_ < 0)
    fail(ErrorKind::io, "launch", "cannot start a keeper for process group {}: {}", group, std::strerror(errno));
  ::setpgid(pid_, group);  // called here too, so that the keeper is in the group before the launcher continues
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

GroupKeeper::GroupKeeper(GroupKeeper&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

GroupKeeper::~GroupKeeper() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);  // our own child, not reaped yet: its pid cannot have been reused
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace lockstep::cluster
