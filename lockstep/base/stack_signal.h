// Stack traces by a signal, without a debugger: of a process that does not end, for its launcher, and of another thread
// of this process.
#pragma once

#include <pthread.h>

#include <array>
#include <chrono>
#include <csignal>
#include <span>
#include <string>

namespace lockstep {

/// The signal that requests a stack trace: SIGURG, because programs without a handler ignore it.
inline constexpr int kWhereAreYou = SIGURG;

/// Installs the handler: on that signal, this process prints the stack of its main thread to stderr, innermost function
/// first (mangled names, which c++filt demangles). No effect when the program has a handler of its own.
void answer_where_are_you();

/// The stack of a thread that a signal interrupted, captured by the signal handler without memory allocation.
class InterruptedStack {
 public:
  /// Call it before the handler is installed: the first backtrace loads a library, which is not safe in a signal
  /// handler.
  static void get_ready();

  /// Captures the stack. Call it in the handler.
  [[gnu::noinline]] void take();

  /// Return addresses, innermost first, without the handler's.
  std::span<void* const> frames() const;

 private:
  std::array<void*, 64> all_{};
  int count_ = 0;
};

/// The functions on the stack of `thread`, innermost first, one per line; or the reason why they are not known: it did
/// not answer within `limits`, for example because it is blocked in the kernel. Interrupts it with kWhereAreYou, whose
/// action is restored afterwards, unless the thread did not answer and may still do so. One call at a time; not for the
/// calling thread.
std::string stack_of_thread(pthread_t thread, std::chrono::milliseconds limits);

}  // namespace lockstep
