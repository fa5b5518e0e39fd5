// The launcher's loop, apart from the store that it hosts.
#pragma once

#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_environment.h>

#include <optional>

namespace lockstep::cluster {

/// Starts the ranks of `job` and stays until nothing of them is left. The calling thread waits for everything at once
/// (ends, output, signals, deadlines) and is the only one. `forked` are ranks that
/// have been prepared for this job, where they need not be started any more.
LaunchResult supervise(const LaunchOptions& options, const Job& job, std::optional<ForkedRanks> forked = {});

}  // namespace lockstep::cluster
