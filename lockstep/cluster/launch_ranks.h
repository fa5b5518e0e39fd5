// The launch of one node's ranks, from options to result. Hosting the store and making processes are passed in.
#pragma once

#include <lockstep/cluster/supervise.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace lockstep::cluster {

/// The steps that differ between launchers.
struct LaunchWays {
  /// Hosts the rendezvous store until launch_ranks() returns; returns its port. Not called where a rendezvous is given.
  std::function<std::uint16_t()> host_store;
  /// The ranks of a job, forked; nullopt: start them one by one.
  std::function<std::optional<ForkedRanks>(const Job&)> fork;
};

/// launch() with these steps.
LaunchResult launch_ranks(const LaunchOptions& options, const LaunchWays& ways);

}  // namespace lockstep::cluster
