// The waiting strategy: how long to spin and to yield before sleeping.
#pragma once

#include <chrono>
#include <cstdint>

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

}  // namespace lockstep::shm
