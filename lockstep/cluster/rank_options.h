// What the processes of a job's local ranks are started with.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_environment.h>

#include <vector>

namespace lockstep::cluster {

/// Words, environment and pipes for one rank. Its folder is made anew, empty. Error(io) when that cannot be.
ChildOptions prepare_rank(const LaunchOptions& options, const Job& job, int local_rank);

/// For all of them.
std::vector<ChildOptions> prepare_ranks(const LaunchOptions& options, const Job& job);

}  // namespace lockstep::cluster
