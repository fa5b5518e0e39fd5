// Timing of work that all ranks start at the same time.
#pragma once

#include <lockstep/comm/group.h>

#include <functional>

namespace lockstep::plan {

/// The seconds of one call of `work`, which all ranks start together, on the slowest rank. A collective.
double seconds_of_slowest(const Group& group, const std::function<void()>& work);

/// The median over `rounds` rounds of seconds_of_slowest(), after one warm-up round. A collective.
double seconds_together(const Group& group, int rounds, const std::function<void()>& work);

}  // namespace lockstep::plan
