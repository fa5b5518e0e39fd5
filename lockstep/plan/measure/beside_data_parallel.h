// The measured comparison of a plan with plain data parallel.
#pragma once

#include <lockstep/plan/plan.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::plan {

/// Whether data parallel fits into memory, as far as the plan's alternatives say; `remarks` say so where it does not.
bool may_try_data_parallel(const Plan& plan, std::vector<std::string>& remarks);

/// Seconds of a step, measured over so many steps.
using MeasuredSteps = std::function<double(int steps)>;

/// Whether a step of the plan takes at most `at_most` of the time of one of data parallel, over `steps` steps of each,
/// or as many short ones as fill half a second. Each has two turns, of which the better counts: whatever else the
/// machine did meanwhile, it hardly did in both. `remarks` say what was measured.
bool beats_data_parallel(int steps, double at_most, const MeasuredSteps& of_plan, const MeasuredSteps& of_data_parallel,
                         std::vector<std::string>& remarks);

}  // namespace lockstep::plan
