// A thread's stack by a signal to it and backtrace(3), with demangled names.
#include <lockstep/membership/session/stack_of_thread.h>

#include <lockstep/base/stack_signal.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

namespace lockstep::membership {
namespace {

// The handler's output. A handler gets only the signal's number, so this must be global.
InterruptedStack stack;
std::atomic<bool> taken{false};

void take_stack(int /*signal*/) {
  stack.take();
  taken = true;
}

std::string name_of(void* address) {
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

std::string stack_of_thread(pthread_t thread, std::chrono::milliseconds limits) {
  InterruptedStack::get_ready();
  taken = false;
  struct sigaction action {};
  action.sa_handler = take_stack;
  action.sa_flags = SA_RESTART;
  struct sigaction before {};
  if (::sigaction(kWhereAreYou, &action, &before) != 0) return "(not known)";
  if (::pthread_kill(thread, kWhereAreYou) != 0) {
    ::sigaction(kWhereAreYou, &before, nullptr);
    return "(not known)";
  }
  const auto deadline = std::chrono::steady_clock::now() + limits;
  while (!taken) {
    if (std::chrono::steady_clock::now() > deadline) return "(the thread does not answer)";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::sigaction(kWhereAreYou, &before, nullptr);
  std::string text;
  for (void* frame : stack.frames()) text += fmt::format("  {}\n", name_of(frame));
  return text;
}

}  // namespace lockstep::membership
