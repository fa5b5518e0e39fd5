// The group of a run: its connection, and the training of a run in it. Collectives.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/program.h>
#include <lockstep/train/trained_run.h>
#include <lockstep/world/world.h>

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

}  // namespace lockstep::train
