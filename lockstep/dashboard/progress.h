// The progress of a job and the speed of its ranks, from their marks of completed steps: rate, time left, a job that
// stands, and the ranks for which the others wait.
#pragma once

#include <lockstep/dashboard/job_view.h>

namespace lockstep::dashboard {

/// Sets `progress`, with `stands` and `why`. The rows must be those of this look.
void take_progress(JobView& view, const JobFacts& facts);

/// Sets `rate`, `waits` and `straggler` of all rows. The rule of stragglers is that of the job service
/// (membership/service/status.h), over the last seconds.
void judge_speed(JobView& view);

}  // namespace lockstep::dashboard
