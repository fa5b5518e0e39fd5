// A wait for a socket, with a deadline.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

namespace lockstep::store {

/// Waits for one of `events` (poll); false when the deadline has passed. nullopt: no deadline. True also on an error,
/// which the next call on the socket reports.
inline bool wait_for(int socket, short events, std::optional<std::chrono::steady_clock::time_point> deadline) {
  using std::chrono::milliseconds;
  while (true) {
    constexpr milliseconds kLongest(60'000);
    const auto left =
        deadline ? std::chrono::ceil<milliseconds>(*deadline - std::chrono::steady_clock::now()) : kLongest;
    pollfd ready{socket, events, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(std::clamp(left, milliseconds(0), kLongest).count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return true;  // the next call on the socket reports the error
    if (deadline && left <= milliseconds(0)) return false;
  }
}

}  // namespace lockstep::store
