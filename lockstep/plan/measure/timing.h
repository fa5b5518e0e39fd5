// Timing of work on all ranks, and the measured comparison of a plan with plain data parallel.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/plan.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::plan {

/// The seconds of one call of `work`, which all ranks start together, on the slowest rank, until their devices have
/// done it. A collective.
double seconds_of_slowest(const Group& group, const std::function<void()>& work);

/// The median over `rounds` rounds of seconds_of_slowest(), after one warm-up round. A collective.
double seconds_together(const Group& group, int rounds, const std::function<void()>& work);

/// Whether data parallel fits into memory according to the plan's alternatives; adds a remark if it does not.
bool may_try_data_parallel(const Plan& plan, std::vector<std::string>& remarks);

/// Measures `steps` steps and returns the seconds of a step.
using MeasuredSteps = std::function<double(int steps)>;

/// Whether a step of the plan takes at most the fraction `at_most` of a step of data parallel, measured over `steps`
/// steps of each, or more short ones that fill half a second. Each is measured twice, and the better result is used,
/// because other load on the machine is unlikely in both. Adds the measurements to `remarks`.
bool beats_data_parallel(int steps, double at_most, const MeasuredSteps& of_plan, const MeasuredSteps& of_data_parallel,
                         std::vector<std::string>& remarks);

}  // namespace lockstep::plan
