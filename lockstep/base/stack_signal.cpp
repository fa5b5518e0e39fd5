// Stack traces from a signal handler (backtrace(3)), without allocation of memory.
#include <lockstep/base/stack_signal.h>

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace lockstep {
namespace {

constexpr std::size_t kOfHandler = 3;  // frames to skip: take(), the handler, and the kernel's signal return

// Must not allocate memory: the signal may have interrupted malloc.
void say_where(int /*signal*/) {
  constexpr std::string_view kWords = "this process received a request to end; its stack is:\n";
  const int error = errno;
  InterruptedStack stack;
  stack.take();
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kWords.data(), kWords.size());
  const auto frames = stack.frames();
  if (!frames.empty()) ::backtrace_symbols_fd(frames.data(), static_cast<int>(frames.size()), STDERR_FILENO);
  errno = error;
}

}  // namespace

void InterruptedStack::get_ready() {
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);
}

void InterruptedStack::take() { count_ = ::backtrace(all_.data(), static_cast<int>(all_.size())); }

std::span<void* const> InterruptedStack::frames() const {
  const auto taken = std::span(all_).first(static_cast<std::size_t>(count_));
  return taken.subspan(std::min(kOfHandler, taken.size()));
}

void answer_where_are_you() {
  struct sigaction before {};
  if (::sigaction(kWhereAreYou, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  InterruptedStack::get_ready();
  struct sigaction action {};
  action.sa_handler = say_where;
  action.sa_flags = SA_RESTART;
  ::sigaction(kWhereAreYou, &action, nullptr);
}

}  // namespace lockstep
