#include <lockstep/base/stack_signal.h>

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace lockstep {
namespace {

constexpr int kMostFrames = 64;
constexpr int kOfHandler = 2;  // frames: the handler's own, and the kernel's way back from it

// Nothing here asks for memory: the thread may be in the middle of that.
void say_where(int /*signal*/) {
  constexpr std::string_view kWords = "this process was asked to end, and is here:\n";
  const int error = errno;
  std::array<void*, kMostFrames> frames{};
  const int count = ::backtrace(frames.data(), kMostFrames);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kWords.data(), kWords.size());
  if (count > kOfHandler) ::backtrace_symbols_fd(frames.data() + kOfHandler, count - kOfHandler, STDERR_FILENO);
  errno = error;
}

}  // namespace

void answer_where_are_you() {
  struct sigaction before {};
  if (::sigaction(kWhereAreYou, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);  // the first call loads a library, which a handler may not
  struct sigaction action {};
  action.sa_handler = say_where;
  action.sa_flags = SA_RESTART;
  ::sigaction(kWhereAreYou, &action, nullptr);
}

}  // namespace lockstep
