// The limit of a wait: a deadline, or a stop request.
#pragma once

#include <chrono>
#include <stop_token>

namespace lockstep::doctor {

class WaitLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitLimit(std::chrono::milliseconds limit, std::stop_token stop = {});

  bool over() const;
  std::chrono::milliseconds left() const;
  /// The time of a single wait, so that a stop is noticed soon: the remaining time, at most 50 ms.
  std::chrono::milliseconds slice() const;
  /// The same, but ending after `limit` at the latest.
  WaitLimit at_most(std::chrono::milliseconds limit) const;
  bool stopped() const { return stop_.stop_requested(); }

 private:
  Clock::time_point deadline_;
  std::stop_token stop_;
};

}  // namespace lockstep::doctor
