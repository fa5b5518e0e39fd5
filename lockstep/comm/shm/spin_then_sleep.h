// Waiting for other ranks: how long to spin and to yield before sleeping, and the futex on which a rank sleeps until
// another one publishes something.
//
// A sleeper sets its bit at the ranks it waits for, looks once more, and sleeps on its own futex word; a
// publisher takes the bits set at it and changes the words of those ranks. Both sides use read-modify-write
// operations on the bits: the second one sees what the first did before it, so no wake is lost. Without sleepers, a
// publisher does only one such operation on its own cache line. tests/comm/shm_model checks this.
#pragma once

#include <lockstep/comm/shm/segment.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

namespace lockstep::shm {

/// With a core for each rank, the others are most likely running and will publish soon. With fewer, the rank waited for
/// may need this core: never spin, and yield a few times, which is cheaper than sleeping and waking.
class WaitStrategy {
 public:
  WaitStrategy(int ranks, int cpus);

 private:
  friend class Waiting;
  std::chrono::nanoseconds most_spin_{};  ///< first spin for at most this long,
  std::chrono::nanoseconds yield_{};      ///< then yield between looks for this long,
  std::uint64_t yields_ = 0;              ///< but at least so many times; then sleep
  /// Learned: how long spinning pays off. It does not where other programs keep ranks from running at the same time.
  std::chrono::nanoseconds spin_{};
};

/// One wait: decides the next step each time that a look found nothing.
class Waiting {
 public:
  enum class Step { spin, yield, sleep };

  explicit Waiting(WaitStrategy& strategy) : strategy_(strategy) {}
  Step next();
  /// Data moved, so the others are awake: starts again with spinning.
  void restart();

 private:
  using Clock = std::chrono::steady_clock;
  WaitStrategy& strategy_;
  Clock::time_point start_{};  // of the phase
  std::uint64_t looks_ = 0;    // in the phase
  Step phase_ = Step::spin;
};

/// Call it after the stores that publish something, on the rank that published.
void wake_sleepers(const Segment& segment, int rank);

/// Sleeps until one of `publishers` publishes after `look_again` returned false, or `limit` passes; returns at once
/// when `look_again` returns true. May wake up early: look again.
void sleep_until_published(const Segment& segment, int rank, std::span<const int> publishers,
                           std::chrono::nanoseconds limit, const std::function<bool()>& look_again);

}  // namespace lockstep::shm
