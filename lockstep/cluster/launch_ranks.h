// The launch of one node's ranks, from options to result. Hosting the store and making processes are passed in.
#pragma once

#include <lockstep/cluster/supervise.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep::cluster {

/// The steps that differ between launchers.
struct LaunchWays {
  /// Hosts the rendezvous store until launch_ranks() returns, and, for more than 0 ranks, a job service for so many,
  /// which writes its events to the descriptor. Not called where a rendezvous is given.
  std::function<Hosted(int ranks, UniqueFd events)> host;
  /// Ranks, forked; nullopt: start them one by one.
  std::function<std::optional<ForkedRanks>(const std::vector<ChildOptions>&)> fork;
};

/// launch() with these steps.
LaunchResult launch_ranks(const LaunchOptions& options, const LaunchWays& ways);

}  // namespace lockstep::cluster
