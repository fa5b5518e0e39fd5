// A fork that runs a function: process group, parent-death signal, variables, error file, and its reaping.
#include <lockstep/base/error.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/cluster/processes/forked_child.h>

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
#include <iostream>
#include <utility>

namespace lockstep::cluster {
namespace {

void flush_streams() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

void read_nothing() {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0) ::_exit(1);
  if (null != STDIN_FILENO) ::close(null);
}

void set_variables(const ChildTask& task) {
  for (const auto& [name, value] : task.variables) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
}

/// The exit code of this child.
int run_body(const ChildTask& task) {
  const Environment report_to = {{"TORCHELASTIC_ERROR_FILE", task.error_file.string()}};
  try {
    task.body();
    return 0;
  } catch (const std::exception& error) {
    report_failure(error, report_to);
  } catch (...) {
    report_failure("an exception that is no std::exception", "exception", report_to);
  }
  return 1;
}

[[noreturn]] void live_as_child(const ChildTask& task, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  read_nothing();
  set_variables(task);
  const int code = run_body(task);
  flush_streams();
  // Not exit(): a child must not run the exit handlers of its parent.
  ::_exit(code);
}

ExitStatus status_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {info.si_status, 0};
  return {0, info.si_status};
}

}  // namespace

ForkedChild::ForkedChild(int index, const ChildTask& task, std::unique_ptr<Lifeline>& lifeline)
    : error_file_(task.error_file) {
  flush_streams();  // otherwise the child prints the buffered output again
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    lifeline.reset();
    live_as_child(task, parent);
  }
  if (pid < 0) fail(ErrorKind::io, "spawn", "cannot start process {}: {}", index, std::strerror(errno));
  ::setpgid(pid, pid);  // both processes call it, so that it is done whichever runs first
  running_ = true;
  end_.rank = index;
  end_.pid = pid;
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const int error = errno;
  try {
    if (!pidfd_) fail(ErrorKind::io, "spawn", "cannot open a pidfd of process {}: {}", pid, std::strerror(error));
    keeper_.emplace(pid, *lifeline);
  } catch (const Error&) {
    signal(SIGKILL);
    look_for_end();
    throw;
  }
}

ForkedChild::ForkedChild(ForkedChild&& other) noexcept
    : running_(std::exchange(other.running_, false)),
      pidfd_(std::move(other.pidfd_)),
      keeper_(std::move(other.keeper_)),
      error_file_(std::move(other.error_file_)),
      end_(std::move(other.end_)) {
  other.keeper_.reset();
}

ForkedChild::~ForkedChild() {
  if (!running_) return;
  signal(SIGKILL);
  look_for_end();
}

void ForkedChild::signal(int number) {
  if (!running_) return;
  end_.asked = number;
  ::kill(-end_.pid, number);
}

void ForkedChild::look_for_end() {
  if (!running_) return;
  // The zombie keeps the group's number in use until it is reaped below.
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(P_PID, static_cast<id_t>(end_.pid), &info, WEXITED | WNOWAIT);
  } while (result < 0 && errno == EINTR);
  running_ = false;
  end_.when = std::chrono::system_clock::now();
  if (result < 0) return;  // other code in this process has reaped it: its exit status is not known
  ::kill(-end_.pid, SIGKILL);
  end_.status = status_of(info);
  end_.note = read_error_file(error_file_);
  keeper_.reset();
  while (::waitpid(end_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep::cluster
