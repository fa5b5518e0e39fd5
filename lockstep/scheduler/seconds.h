// Durations in seconds, for messages.
#pragma once

#include <chrono>

namespace lockstep::scheduler {

inline double seconds_in(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace lockstep::scheduler
