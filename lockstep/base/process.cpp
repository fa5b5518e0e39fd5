// A child process: polled through its pidfd, signalled by process group, and reaped in the destructor only; and the run
// of a program to its end, while both of its output streams are read.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
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

namespace {

// Appends the available bytes; closes the descriptor at the end of the stream.
void read_some(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
  if (count > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    fd.reset();
  }
}

// Waits for the end of the child or for output, at most until `deadline`; false when that has passed.
bool wait_for_news(Child& child, Captured& captured, Clock::time_point deadline) {
  const int left = poll_time(deadline);
  if (left == 0) return false;
  // poll ignores descriptors below 0.
  std::array<pollfd, 3> watched{
      {{child.out().get(), POLLIN, 0}, {child.err().get(), POLLIN, 0}, {child.end_fd(), POLLIN, 0}}};
  ::poll(watched.data(), watched.size(), left);
  if (watched[0].revents != 0) read_some(child.out(), captured.out);
  if (watched[1].revents != 0) read_some(child.err(), captured.err);
  return true;
}

// Appends the bytes that are in the pipe now. Does not wait for the end of the stream: a process that left the group
// may keep the pipe open.
void drain(UniqueFd& fd, std::string& text) {
  constexpr std::size_t kLargestPipe = 1 << 20;
  const std::size_t enough = text.size() + kLargestPipe;
  while (fd && text.size() < enough) {
    pollfd watched{fd.get(), POLLIN, 0};
    if (::poll(&watched, 1, 0) <= 0) return;
    read_some(fd, text);
  }
}

std::string line_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// The processes of a tree, one line each, with what each waits for: the reader learns which of them hangs.
std::string describe_tree(pid_t pid, const std::string& indent = "  ") {
  const auto folder = std::filesystem::path("/proc") / std::to_string(pid);
  const auto stat = line_of(folder / "stat");
  const auto state = stat.substr(std::min(stat.rfind(") "), stat.size()));
  auto text = fmt::format("{}{} (pid {}): state{}, waits in {}\n", indent, line_of(folder / "comm"), pid,
                          state.substr(std::min<std::size_t>(1, state.size()), 2), line_of(folder / "wchan"));
  std::error_code ignored;  // processes and threads end during the listing
  for (std::filesystem::directory_iterator task(folder / "task", ignored), end; task != end; task.increment(ignored)) {
    std::ifstream children(task->path() / "children");
    for (pid_t child = 0; children >> child;) text += describe_tree(child, indent + "  ");
  }
  return text;
}

// Whether the machine itself was slow: the share of time in which processes waited for processors, disks and memory.
std::string describe_pressure() {
  std::string text;
  for (const char* what : {"cpu", "io", "memory"}) {
    text += fmt::format("  {}: {}\n", what, line_of(std::filesystem::path("/proc/pressure") / what));
  }
  return text;
}

}  // namespace

Captured run_and_capture(ChildOptions options, std::chrono::milliseconds limit) {
  options.out = ChildStream::pipe;
  options.err = ChildStream::pipe;
  const auto deadline = Clock::now() + limit;
  Child child(options);
  Captured captured;
  while (!child.poll()) {
    if (!wait_for_news(child, captured, deadline)) {
      fail(
          ErrorKind::timeout, "process",
          "{} did not end within {} ms and was killed; it wrote:\n{}{}\nits processes:\n{}waiting on this machine:\n{}",
          options.arguments.front(), limit.count(), captured.out, captured.err, describe_tree(child.pid()),
          describe_pressure());
    }
  }
  child.signal_group(SIGKILL);
  drain(child.out(), captured.out);
  drain(child.err(), captured.err);
  captured.status = *child.poll();
  return captured;
}

}  // namespace lockstep
