// The sharding of the batch where it costs almost nothing. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

namespace lockstep::plan {

/// Shards the batch if that hardly changes the time of a step, so that each rank reads only its part. The step takes no
/// longer than `at_most`, the time of the other candidates.
void divide_batch(const Task& task, Candidate& best, Seconds at_most);

}  // namespace lockstep::plan
