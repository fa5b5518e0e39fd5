// A rate limit for requests, shared by threads: a burst size and a number of requests per second.
#pragma once

#include <chrono>
#include <mutex>

namespace lockstep::kube {

class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  /// Takes a token for one request; returns how long the caller must wait before it sends the request.
  Clock::duration take(Clock::time_point now = Clock::now());

 private:
  std::mutex mutex_;
  double per_second_;
  double burst_;
  double left_;  ///< tokens; below 0: tokens that are taken and not yet due
  Clock::time_point last_ = Clock::now();
};

}  // namespace lockstep::kube
