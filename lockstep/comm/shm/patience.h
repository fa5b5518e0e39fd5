// How long to wait awake before sleeping.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::shm {

/// With a core for each rank, the others are most likely running and about to publish. Without, the rank waited for may
/// need this very core: never spin, and hand the core around a few times, which is cheaper than sleeping and waking.
class Patience {
 public:
  Patience(int ranks, int cpus);

 private:
  friend class Waiting;
  std::chrono::nanoseconds most_spin_{};  ///< first look again and again,
  std::chrono::nanoseconds yield_{};      ///< then let others run between looks for this long,
  std::uint64_t yields_ = 0;              ///< but at least so many times; then sleep
  /// Learned: how long spinning pays. It does not where other programs keep the ranks from running at the same time.
  std::chrono::nanoseconds spin_{};
};

/// One wait: says what to do next each time that a look found nothing.
class Waiting {
 public:
  enum class Step { spin, yield, sleep };

  explicit Waiting(Patience& patience) : patience_(patience) {}
  Step next();
  /// Something moved: the others are awake, so begin anew.
  void restart();

 private:
  using Clock = std::chrono::steady_clock;
  Patience& patience_;
  Clock::time_point start_{};  // of the phase
  std::uint64_t looks_ = 0;    // in the phase
  Step phase_ = Step::spin;
};

}  // namespace lockstep::shm
