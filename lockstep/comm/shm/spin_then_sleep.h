// Waits for other ranks: how long to spin and to yield before sleeping, and the futex on which a rank sleeps until
// another rank publishes something.
//
// A sleeper sets its bit at the ranks that it waits for, checks once more, and sleeps on its own futex word. A
// publisher takes the bits set at it and changes the words of those ranks. Both sides use read-modify-write operations
// on the bits: the second one sees the stores that the first made before, so no wake is lost. Without sleepers, a
// publisher does only one such operation on its own cache line. tests/comm/shm_model checks this.
#pragma once

#include <lockstep/comm/shm/segment.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

namespace lockstep::shm {

/// With a core for each rank, the other ranks probably run and will publish soon. With fewer cores, the rank that is
/// waited for may need this core: never spin, and yield a few times, which is cheaper than sleep and wake-up.
class WaitStrategy {
 public:
  WaitStrategy(int ranks, int cpus);

 private:
  friend class Waiting;
  std::chrono::nanoseconds most_spin_{};  ///< first spin for at most this long,
  std::chrono::nanoseconds yield_{};      ///< then yield between checks for this long,
  std::uint64_t yields_ = 0;              ///< but at least this many times; then sleep
  /// An adaptive limit for useful spinning. Spinning is useless while other programs prevent ranks from running
  /// together.
  std::chrono::nanoseconds spin_{};
};

/// One wait: decides the next step after each check that found nothing.
class Waiting {
 public:
  enum class Step { spin, yield, sleep };

  explicit Waiting(WaitStrategy& strategy) : strategy_(strategy) {}
  Step next();
  /// Data moved, so the other ranks are awake: starts again with spinning.
  void restart();

 private:
  using Clock = std::chrono::steady_clock;
  WaitStrategy& strategy_;
  Clock::time_point start_{};  // of the phase
  std::uint64_t looks_ = 0;    // in the phase
  Step phase_ = Step::spin;
};

/// Call it after the stores that publish data, on the rank that published it.
void wake_sleepers(const Segment& segment, int rank);

/// Sleeps until one of `publishers` publishes after `look_again` returned false, or `limit` passes; returns at once
/// when `look_again` returns true. It may wake up early, so check again.
void sleep_until_published(const Segment& segment, int rank, std::span<const int> publishers,
                           std::chrono::nanoseconds limit, const std::function<bool()>& look_again);

}  // namespace lockstep::shm
