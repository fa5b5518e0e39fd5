// The ranks of one node from their options to their ends, apart from how the store is hosted and processes are made.
#pragma once

#include <lockstep/cluster/supervise.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace lockstep::cluster {

/// What a launcher does in its own way.
struct LaunchWays {
  /// Hosts the store where the ranks meet, until launch_ranks() returns; its port. Not called where they have a place.
  std::function<std::uint16_t()> host_store;
  /// The ranks of a job, forked; nullopt: start them one by one.
  std::function<std::optional<ForkedRanks>(const Job&)> fork;
};

/// launch() in the ways of this launcher.
LaunchResult launch_ranks(const LaunchOptions& options, const LaunchWays& ways);

}  // namespace lockstep::cluster
