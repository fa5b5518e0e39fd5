// A launcher asks a process that does not end where it is.
#pragma once

#include <csignal>

namespace lockstep {

/// What it is asked with: programs that know nothing of it are not disturbed.
inline constexpr int kWhereAreYou = SIGURG;

/// From now on this process answers that signal: on stderr, with the functions that its first thread is in, innermost
/// first (names as linkers know them, which c++filt reads). Not where the program has a handler of its own.
void answer_where_are_you();

}  // namespace lockstep
