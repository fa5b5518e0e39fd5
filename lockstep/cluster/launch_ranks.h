// The launch of one node's ranks, from options to result, and the launcher's event loop over them. The caller passes in
// the functions that host the store and make processes.
#pragma once

#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/rank_start.h>
#include <lockstep/cluster/replace/replacements.h>

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
  /// Who watches the job; called after the start of the ranks. Empty: nobody.
  std::function<Watching(const Launch& job)> watch{};
};

/// launch() with these steps.
LaunchResult launch_ranks(const LaunchOptions& options, const LaunchWays& ways);

/// `job` is the last start of its ranks here, and `result` its end. Where this launcher is a rank of another launcher,
/// it writes the root cause to the error file of that launcher: as the first failing rank wrote it if that rank was
/// started here, else the report. The report then also names the folder of the logs, if they stay.
void publish_root_cause(LaunchResult& result, const Launch& job, const LogFolder& logs, const Environment& environment);

/// Starts the ranks of `job` and returns when none of their processes is left. The calling thread waits for all events
/// at once (ends, output, signals, deadlines) and is the only one. `forked` are ranks of this job that are forked
/// already and need not be started. The ends of `helpers` are reported, and change nothing else. `watching` gets
/// reports, and may kill ranks; its `ended` is left to the caller.
LaunchResult supervise(const LaunchOptions& options, const Launch& job, std::optional<ForkedRanks> forked = {},
                       Replacing replacing = {}, std::vector<Helper> helpers = {}, Watching watching = {});

}  // namespace lockstep::cluster
