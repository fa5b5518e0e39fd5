// The durations of a rank's recent steps, and the part of them that was not spent waiting in collectives.
//
// Ranks that train together end a step together: the fast ones wait for the slow one in collectives, and their steps
// are as long as its. They differ in the rest of the step, in which a rank computed, loaded or slept itself.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep {

struct StepTime {
  std::chrono::microseconds whole{0};  ///< from the end of a step to that of the next
  std::chrono::microseconds own{0};    ///< of it, not blocked in collectives

  bool operator==(const StepTime&) const = default;
};

/// Not thread-safe.
class StepTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Step number `step` is complete. `waited` is how long the rank was blocked in collectives so far, all together. A
  /// program that does not call it after each step is taken to have made those in between equally fast.
  void complete(std::int64_t step, Time now, std::chrono::nanoseconds waited) noexcept;

  /// The medians over the last 15: an evaluation or a checkpoint between two steps does not show. nullopt before the
  /// second step.
  std::optional<StepTime> recent() const noexcept;

 private:
  static constexpr std::size_t kRemembered = 15;
  struct End {
    std::int64_t step;
    Time at;
    std::chrono::nanoseconds waited;
  };
  std::optional<End> last_;
  std::array<StepTime, kRemembered> times_;
  std::size_t count_ = 0;  ///< of all that were remembered
};

}  // namespace lockstep
