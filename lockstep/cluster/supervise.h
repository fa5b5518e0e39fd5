// The launcher's loop, apart from the store that it hosts.
#pragma once

#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_environment.h>

namespace lockstep::cluster {

/// Starts the ranks of `job` and stays until nothing of them is left. The calling thread waits for everything at once
/// (ends, output, signals, deadlines) and is the only one.
LaunchResult supervise(const LaunchOptions& options, const Job& job);

}  // namespace lockstep::cluster
