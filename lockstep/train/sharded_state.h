// Conversion between the state of a sharded optimizer and that of a whole one.
#pragma once

#include <lockstep/mirrored/parameter_shards.h>
#include <lockstep/train/optimizer.h>

namespace lockstep::train {

/// The whole state. `optimizer` updates the pieces of `shards`, whose parameters are `parameters`. A collective.
NamedTensors sharded_optimizer_state(const torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                     const NamedParameters& parameters);

/// Loads this rank's parts of a whole state. Error(data) as load_optimizer_state.
void load_sharded_optimizer_state(torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                  const NamedParameters& parameters, const NamedTensors& state);

}  // namespace lockstep::train
