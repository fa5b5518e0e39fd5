// The group of a run: its connection, the training of a run in it, and the recovery of the run in the same processes
// after some of its ranks were lost (docs/surviving.md). Collectives.
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/kept_state.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/output/run_clock.h>
#include <lockstep/train/program.h>
#include <lockstep/train/trained_run.h>
#include <lockstep/world/world.h>

#include <functional>
#include <optional>

namespace lockstep::train {

/// The section `cluster`, and whether the run has parameter servers.
ClusterOptions cluster_of(const ResolvedRun& config);

/// Checks mode and backend for the processes of `world`, without a query of devices. Error(config).
void require_world_fits(const ResolvedRun& config, const World& world);

/// Connects to the other ranks as configured in the sections parallel and cluster. Error(config) for mode stand_alone
/// with several ranks; those of connect().
Group connect_run(const ResolvedRun& config, const World& world);

/// Trains as this rank of `world`, as Trainer::train() (runner/trainer.h) does for programs. Changes the process as
/// that does.
RunResult run_training(const ResolvedRun& config, const Program& program, const World& world);

/// The same in a group. If ranks were lost, `group` is afterwards the group of the last generation, or empty if all
/// other ranks had reached the end. If it throws, the other ranks end with that error as the reason.
RunResult run_training(const ResolvedRun& config, const Program& program, std::optional<Group>& group);

/// The same with the model and the data that the configuration names.
RunResult run_training(const ResolvedRun& config, const World& world);

/// Whether this rank prints (callbacks.console_ranks).
bool has_console(const ResolvedRun& config, const World& world);

/// In mode auto, the configuration from the planner; the planner's output is printed on the console.
ResolvedRun planned(const ResolvedRun& config, const Program& program, const Group& group, Console& console);

/// Ends the other ranks of the group with the current exception as the reason, and rethrows it. For catch blocks.
[[noreturn]] void abort_and_rethrow(Group& group);

/// The state that a rank keeps while it has no group.
struct Kept {
  std::optional<InjectedFault> fault = find_injected_fault(current_environment());  ///< not triggered yet
  std::optional<KeptState> state;                                                   ///< see Session::salvage
  std::optional<int> signal;        ///< a stop signal that arrived before the group was lost
  std::optional<RunResult> result;  ///< the result, if this rank reached the end before the other ranks
  KeptTimes times{};
};

/// Compares all ranks' states, and sends the most advanced one to all ranks (also in `kept`). nullopt, with an empty
/// `kept`, when there is no valid state: the checkpoint is used next. A collective.
std::optional<ResumePoint> agree_on_state(Kept& kept, const Group& group, Console& console);

/// Calls `part` with the group; and again with the group of the next generation, which replaces `group`, each time that
/// it fails because ranks were lost. `group` is empty if the job was completed meanwhile. Other errors end the run in
/// this process: the other ranks continue without it.
RunResult run_with_recovery(std::optional<Group>& group, const std::function<RunResult(const Group&, Kept&)>& part);

}  // namespace lockstep::train
