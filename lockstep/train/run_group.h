// The group of a run, and what training, evaluation and prediction do with it. Collectives.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/program.h>
#include <lockstep/train/run.h>
#include <lockstep/world/world.h>

#include <optional>

namespace lockstep::train {

/// The section `cluster`, and whether the run has parameter servers.
ClusterOptions cluster_of(const RunConfig& config);

/// Whether the run can have the processes of `world`: mode and backend, as far as no device is asked. Error(config).
void require_world_fits(const RunConfig& config, const World& world);

/// Connects to the other ranks as the sections parallel and cluster say. Error(config) for mode stand_alone with
/// several ranks; those of connect().
Group connect_run(const RunConfig& config, const World& world);

/// As the function in run.h. Where ranks were lost, `group` is that of the last generation afterwards, or none when
/// all others had reached the end. The other ranks end with the reason of whatever it throws.
RunResult run_training(const RunConfig& config, const Program& program, std::optional<Group>& group);

/// Whether this rank prints (callbacks.console_ranks).
bool has_console(const RunConfig& config, const World& world);

/// In mode auto, the configuration that the planner makes of this one; what it says goes to the console.
RunConfig planned(const RunConfig& config, const Program& program, const Group& group, Console& console);

/// Weights of the newest checkpoint, or that of checkpoint.resume. Error(config) when there is none.
NamedTensors checkpoint_weights(const RunConfig& config, const Group& group);

/// Evaluates over the test split, as a run of this configuration does after training; every sample counts once, on any
/// number of ranks. `weights`: parameters and buffers of the whole model; nullptr: model.weights, or random ones
/// without it. Writes no file. Error(config) when there is nothing to evaluate on. Changes the process as run_training
/// does.
Evaluation evaluate_run(const RunConfig& config, const Program& program, const Group& group,
                        const NamedTensors* weights = nullptr);

}  // namespace lockstep::train
