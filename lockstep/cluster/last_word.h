// The last steps of a launcher whose job has failed for good: passing on the root cause, and naming the logs.
#pragma once

#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/log_folder.h>
#include <lockstep/cluster/rank_environment.h>

namespace lockstep::cluster {

/// `job` is the last start of its ranks here, and `result` its end. Where this launcher is a rank of another one, the
/// other one's error file gets the root cause: as the first failing rank wrote it if that rank was started here, else
/// the report. The report then also says where the logs are, if they stay.
void leave_last_word(LaunchResult& result, const Job& job, const LogFolder& logs, const Environment& environment);

}  // namespace lockstep::cluster
