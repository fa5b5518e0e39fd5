// The evaluation of a model whose weights are in a file, over the data of a configuration.
#pragma once

#include <lockstep/train/evaluation.h>
#include <lockstep/train/program.h>
#include <lockstep/world/world.h>

namespace lockstep::train {

/// Evaluates the weights of model.weights (random ones without it) as this rank of `world`, as a run of this
/// configuration does after training; every sample counts once, on any number of ranks. Trains nothing and writes no
/// file. Error(config) when the configuration's data has nothing to evaluate on. Changes the process as run_training
/// does.
Evaluation evaluate_run(const RunConfig& config, const Program& program, const World& world);

}  // namespace lockstep::train
