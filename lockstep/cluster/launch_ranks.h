// The launch of one node's ranks, from options to result. The caller passes in the functions that host the store and
// make processes.
#pragma once

#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/supervise.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::cluster {

/// The steps that differ between launchers.
struct LaunchWays {
  /// Hosts the rendezvous store until launch_ranks() returns, and, for more than 0 ranks, a job service for this number
  /// of ranks, which keeps `losses` up to date. Not called where a rendezvous is given.
  std::function<Hosted(int ranks, std::shared_ptr<SharedLosses> losses)> host;
  /// Forks the ranks; nullopt: start them one by one.
  std::function<std::optional<ForkedRanks>(const std::vector<ChildOptions>&)> fork;
  /// The launcher's other processes; called after the start of the ranks. Empty: none.
  std::function<std::vector<Helper>()> helpers{};
};

/// launch() with these steps.
LaunchResult launch_ranks(const LaunchOptions& options, const LaunchWays& ways);

/// `job` is the last start of its ranks here, and `result` its end. Where this launcher is a rank of another launcher,
/// it writes the root cause to the error file of that launcher: as the first failing rank wrote it if that rank was
/// started here, else the report. The report then also names the folder of the logs, if they stay.
void publish_root_cause(LaunchResult& result, const Launch& job, const LogFolder& logs, const Environment& environment);

}  // namespace lockstep::cluster
