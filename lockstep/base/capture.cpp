// The run of a program to its end, while both of its output streams are read.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

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
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0) return false;
  // poll ignores descriptors below 0.
  std::array<pollfd, 3> watched{
      {{child.out().get(), POLLIN, 0}, {child.err().get(), POLLIN, 0}, {child.end_fd(), POLLIN, 0}}};
  ::poll(watched.data(), watched.size(), static_cast<int>(std::min<std::int64_t>(left, 1 << 30)));
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
