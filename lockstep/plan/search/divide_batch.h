// The division of the batch where it costs almost nothing. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

namespace lockstep::plan {

/// Where it makes next to no difference to the step, each rank reads its part of the batch only. The step stays as fast
/// as `at_most`, what the others need.
void divide_batch(const Task& task, Candidate& best, Seconds at_most);

}  // namespace lockstep::plan
