// The signal by which a launcher requests a stack trace from a process that does not end, and the handler that prints
// it.
#pragma once

#include <array>
#include <csignal>
#include <span>

namespace lockstep {

/// SIGURG, because programs without a handler ignore it.
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

}  // namespace lockstep
