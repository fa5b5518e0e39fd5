// The signal by which a launcher asks a process that does not end for its stack, and the handler that prints it.
#pragma once

#include <array>
#include <csignal>
#include <span>

namespace lockstep {

/// The signal. Programs without a handler ignore it.
inline constexpr int kWhereAreYou = SIGURG;

/// From now on this process answers that signal: on stderr, with the functions that its first thread is in, innermost
/// first (names as linkers know them, which c++filt reads). Not where the program has a handler of its own.
void answer_where_are_you();

/// The functions that a thread was in when a signal interrupted it: what its handler can find out without memory.
class InterruptedStack {
 public:
  /// To be called before a handler may run: the first look at a stack loads a library, which a handler may not.
  static void get_ready();

  /// To be called by the handler itself.
  [[gnu::noinline]] void take();

  /// Return addresses, innermost first, without the handler's.
  std::span<void* const> frames() const;

 private:
  std::array<void*, 64> all_{};
  int count_ = 0;
};

}  // namespace lockstep
