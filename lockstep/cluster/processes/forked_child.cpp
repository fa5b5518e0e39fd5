// A fork that runs a function: process group, parent-death signal, variables, error file, and its reaping; and a list
// of this process's other threads from /proc, after a trial fork that ends the thread pool of OpenBLAS.
#include <lockstep/base/error.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/cluster/processes/forked_child.h>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

// Functions of the math libraries that libtorch uses, where they are loaded. Their variables are read at load time
// only.
extern "C" {
[[gnu::weak]] void omp_set_num_threads(int);
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void openblas_set_num_threads(int);
[[gnu::weak]] int openblas_get_num_threads();
}

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

namespace {

/// The names of the other threads, sorted.
std::vector<std::string> threads_now() {
  const std::string self = std::to_string(::syscall(SYS_gettid));
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) continue;
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Ends thread pools by a trial fork: libraries end them in their fork handlers. The child does nothing.
void let_pools_end() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  if (pid < 0) fail(ErrorKind::io, "spawn", "cannot start a process: {}", std::strerror(errno));
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::vector<std::string> other_threads() {
  if (threads_now().empty()) return {};
  let_pools_end();
  return threads_now();
}

void require_single_thread() {
  const auto others = other_threads();
  if (others.empty()) return;
  fail(ErrorKind::unsupported, "spawn",
       "this process has {} other thread{} ({}), and children forked from it could hang; call spawn early in main, "
       "before tensors are computed with, lockstep::init() is called or threads are started",
       others.size(), others.size() == 1 ? "" : "s", fmt::join(others, ", "));
}

OneThreadEach::OneThreadEach() {
  if (omp_set_num_threads != nullptr && omp_get_max_threads != nullptr) {
    openmp_ = omp_get_max_threads();
    omp_set_num_threads(1);
  }
  if (openblas_set_num_threads != nullptr && openblas_get_num_threads != nullptr) {
    openblas_ = openblas_get_num_threads();
    openblas_set_num_threads(1);
  }
}

OneThreadEach::~OneThreadEach() {
  if (openmp_) omp_set_num_threads(*openmp_);
  if (openblas_) openblas_set_num_threads(*openblas_);
}

}  // namespace lockstep::cluster
