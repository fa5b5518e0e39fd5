// The start options of the processes of a job's local ranks.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_environment.h>

#include <vector>

namespace lockstep::cluster {

/// Arguments, environment and pipes of one rank. Makes its folder, empty. Error(io) when that fails.
ChildOptions prepare_rank(const LaunchOptions& options, const Job& job, int local_rank);

/// The same for a process that takes the place of a lost one.
ChildOptions prepare_replacement(const LaunchOptions& options, const Job& job, int local_rank);

/// prepare_rank for all local ranks.
std::vector<ChildOptions> prepare_ranks(const LaunchOptions& options, const Job& job);

}  // namespace lockstep::cluster
