// A ring of the last step durations, and medians of the whole step and of the part outside collectives.
#include <lockstep/base/step_times.h>

#include <algorithm>
#include <utility>

namespace lockstep {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

void StepTimes::complete(std::int64_t step, Time now, nanoseconds waited) noexcept {
  const auto before = std::exchange(last_, End{step, now, waited});
  if (!before || step <= before->step) return;
  const auto steps = step - before->step;
  const nanoseconds whole = std::max<nanoseconds>(now - before->at, nanoseconds(0)) / steps;
  // Clamped, because several threads may have waited at the same time.
  const nanoseconds blocked = std::clamp((waited - before->waited) / steps, nanoseconds(0), whole);
  times_.at(count_++ % kRemembered) = {duration_cast<microseconds>(whole),
                                       duration_cast<microseconds>(whole - blocked)};
}

std::optional<StepTime> StepTimes::recent() const noexcept {
  if (count_ == 0) return std::nullopt;
  const auto median = [this](microseconds StepTime::*part) {
    std::array<microseconds, kRemembered> values{};
    const auto end = std::transform(times_.begin(), times_.begin() + std::min(count_, kRemembered), values.begin(),
                                    [part](const StepTime& time) { return time.*part; });
    const auto middle = values.begin() + (end - values.begin()) / 2;
    std::nth_element(values.begin(), middle, end);
    return *middle;
  };
  return StepTime{median(&StepTime::whole), median(&StepTime::own)};
}

}  // namespace lockstep
