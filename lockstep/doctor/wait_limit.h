// The limit of a wait: a deadline, or a stop request.
#pragma once

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <utility>

namespace lockstep::doctor {

/// The limit of one wait, or of several that follow each other.
class WaitLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitLimit(std::chrono::milliseconds limit, std::stop_token stop = {})
      : deadline_(Clock::now() + limit), stop_(std::move(stop)) {}

  bool over() const { return stopped() || Clock::now() >= deadline_; }
  std::chrono::milliseconds left() const {
    if (stopped()) return std::chrono::milliseconds(0);
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()),
                    std::chrono::milliseconds(0));
  }
  /// The time of a single wait, so that a stop request is handled soon: the remaining time, at most 50 ms.
  std::chrono::milliseconds slice() const { return std::min(left(), std::chrono::milliseconds(50)); }
  /// The same, but ending after `limit` at the latest.
  WaitLimit at_most(std::chrono::milliseconds limit) const { return WaitLimit(std::min(limit, left()), stop_); }
  bool stopped() const { return stop_.stop_requested(); }

 private:
  Clock::time_point deadline_;
  std::stop_token stop_;
};

}  // namespace lockstep::doctor
