// The speed of each rank, and the ranks for which the others wait, from their marks of completed steps.
#pragma once

#include <lockstep/dashboard/job_view.h>

#include <map>

namespace lockstep::dashboard {

/// Sets `rate`, `waits` and `straggler` of all rows. The rule of stragglers is that of the job service
/// (membership/service/status.h), over the last seconds. `now`: seconds since the start of the job.
void judge_speed(std::map<int, RankView>& ranks, double now);

}  // namespace lockstep::dashboard
