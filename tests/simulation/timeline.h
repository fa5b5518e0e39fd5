// The simulated clock: events at times, in the order of their times and, at equal times, of their making.
#pragma once

#include <lockstep/membership/membership.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace lockstep::simulation {

using membership::Time;

class Timeline {
 public:
  Time now() const { return now_; }

  void at(Time time, std::function<void()> what) { events_.push({std::max(time, now_), made_++, std::move(what)}); }
  void after(std::chrono::milliseconds delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  /// Runs the next event; false when there is none, or it is later than `until`.
  bool run_next(Time until) {
    if (events_.empty() || events_.top().time > until) return false;
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    ++run_;
    event.what();
    return true;
  }
  std::uint64_t events_run() const { return run_; }

 private:
  struct Event {
    Time time;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };

  Time now_{std::chrono::hours(1)};
  std::uint64_t made_ = 0;
  std::uint64_t run_ = 0;
  std::priority_queue<Event> events_;
};

}  // namespace lockstep::simulation
