// The scheduler's role of a process: its detection and its run.
#pragma once

#include <lockstep/world/cluster_settings.h>

#include <string_view>

namespace lockstep::runner {

/// Whether this process is to be one: MS_ROLE or cluster.role says so, and no other launcher is named.
bool is_scheduler(std::string_view launcher, const ClusterOptions& options);

/// Until the job is over; an exit code.
int run_scheduler(const ClusterOptions& options);

}  // namespace lockstep::runner
