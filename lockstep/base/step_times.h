// The durations of a rank's recent steps, and the part of them that was not spent waiting in collectives.
//
// Ranks that train together end a step together: fast ranks wait for the slowest rank in collectives, so all steps take
// equally long. Ranks differ in the rest of the step, in which a rank computes, loads data or sleeps.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep {

struct StepTime {
  std::chrono::microseconds whole{0};  ///< time from the end of a step to the end of the next one
  std::chrono::microseconds own{0};    ///< the part that was not spent blocked in collectives

  bool operator==(const StepTime&) const = default;
};

/// Not thread-safe.
class StepTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Records that step number `step` is complete. `waited` is the total time so far that the rank was blocked in
  /// collectives. If a program does not call it after each step, the steps in between are assumed to be equally long.
  void complete(std::int64_t step, Time now, std::chrono::nanoseconds waited) noexcept;

  /// The medians over the last 15 steps, which an evaluation or a checkpoint between two steps hardly changes. nullopt
  /// before the second step.
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
  std::size_t count_ = 0;  ///< number of step times recorded since the start
};

}  // namespace lockstep
