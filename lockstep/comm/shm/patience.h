// How long to wait awake before sleeping.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::shm {

struct Patience {
  std::chrono::microseconds spin{};   ///< first look again and again,
  std::chrono::microseconds yield{};  ///< then let others run between looks for this long,
  int yields = 0;                     ///< but at least so many times; then sleep
};

/// With a core for each rank, the others are most likely running and about to publish. Without, the rank waited for may
/// need this very core: never spin, and hand the core around a few times, which is cheaper than sleeping and waking.
Patience patience_for(int ranks, int cpus);

/// One wait: says what to do next each time that a look found nothing.
class Waiting {
 public:
  enum class Step { spin, yield, sleep };

  explicit Waiting(const Patience& patience) : patience_(patience) {}
  Step next();
  /// Something moved: the others are awake, so begin anew.
  void restart() { *this = Waiting(patience_); }

 private:
  using Clock = std::chrono::steady_clock;
  Patience patience_;
  Clock::time_point start_{};  // of the phase
  std::uint64_t looks_ = 0;    // in the phase
  Step phase_ = Step::spin;
};

}  // namespace lockstep::shm
