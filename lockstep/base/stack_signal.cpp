// Stack traces from a signal handler (backtrace(3)), without allocation of memory there; those of another thread have
// demangled names.
#include <lockstep/base/stack_signal.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

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

// The output of take_other_stack(). A handler gets only the signal's number, so this must be global.
InterruptedStack stack_of_other;
std::atomic<bool> other_taken{false};

void take_other_stack(int /*signal*/) {
  stack_of_other.take();
  other_taken = true;
}

std::string function_at(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0) return fmt::format("{}", fmt::ptr(address));
  if (info.dli_sname == nullptr) {
    const auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
    return fmt::format("{} + {:#x}", info.dli_fname, offset);
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : info.dli_sname;
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

std::string stack_of_thread(pthread_t thread, std::chrono::milliseconds limits) {
  InterruptedStack::get_ready();
  other_taken = false;
  struct sigaction action {};
  action.sa_handler = take_other_stack;
  action.sa_flags = SA_RESTART;
  struct sigaction before {};
  if (::sigaction(kWhereAreYou, &action, &before) != 0) return "(not known)";
  if (::pthread_kill(thread, kWhereAreYou) != 0) {
    ::sigaction(kWhereAreYou, &before, nullptr);
    return "(not known)";
  }
  const auto deadline = std::chrono::steady_clock::now() + limits;
  while (!other_taken) {
    if (std::chrono::steady_clock::now() > deadline) return "(the thread does not answer)";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::sigaction(kWhereAreYou, &before, nullptr);
  std::string text;
  for (void* frame : stack_of_other.frames()) text += fmt::format("  {}\n", function_at(frame));
  return text;
}

}  // namespace lockstep
