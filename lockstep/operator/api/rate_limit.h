// A limit for requests, shared by threads: so many at once, and so many a second.
#pragma once

#include <chrono>
#include <mutex>

namespace lockstep::kube {

class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  /// Takes a request's turn; returns how long the caller must wait for it.
  Clock::duration take(Clock::time_point now = Clock::now());

 private:
  std::mutex mutex_;
  double per_second_;
  double burst_;
  double left_;  ///< below 0: turns that are taken and still to come
  Clock::time_point last_ = Clock::now();
};

}  // namespace lockstep::kube
