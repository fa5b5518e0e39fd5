// The launcher's event loop over its ranks. It does not host the store.
#pragma once

#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/replace/replacements.h>

#include <optional>
#include <vector>

namespace lockstep::cluster {

/// Starts the ranks of `job` and returns when none of their processes is left. The calling thread waits for all events
/// at once (ends, output, signals, deadlines) and is the only one. `forked` are ranks of this job that are forked
/// already and need not be started. The ends of `helpers` are reported, and change nothing else.
LaunchResult supervise(const LaunchOptions& options, const Launch& job, std::optional<ForkedRanks> forked = {},
                       Replacing replacing = {}, std::vector<Helper> helpers = {});

}  // namespace lockstep::cluster
