// Timing of work that all ranks begin together.
#pragma once

#include <lockstep/comm/group.h>

#include <functional>

namespace lockstep::plan {

/// Seconds of one call of `work`, which all ranks begin together: those of the slowest rank. A collective.
double seconds_of_slowest(const Group& group, const std::function<void()>& work);

/// Seconds of one call of `work`, which all ranks begin together `rounds` times, once before unmeasured: of each round
/// that of the slowest rank, and of these the median. A collective.
double seconds_together(const Group& group, int rounds, const std::function<void()>& work);

}  // namespace lockstep::plan
