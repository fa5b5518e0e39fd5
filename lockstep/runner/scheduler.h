// The role of a scheduler: the service for the workers of a job that has no launcher.
#pragma once

#include <lockstep/world/cluster_settings.h>

#include <string_view>

namespace lockstep::runner {

/// Whether this process must be a scheduler: MS_ROLE or cluster.role sets it, and no other launcher is named.
bool is_scheduler(std::string_view launcher, const ClusterOptions& options);

/// Runs the scheduler until the job ends. Returns an exit code (cluster/failure.h).
int run_scheduler(const ClusterOptions& options);

}  // namespace lockstep::runner
