// The state of an optimizer in shards, as the whole one would have it.
#pragma once

#include <lockstep/mirrored/parameter_shards.h>
#include <lockstep/train/optimizer.h>

namespace lockstep::train {

/// `optimizer` updates the pieces of `shards`; `parameters` are those of `shards`, with names. A collective.
NamedTensors sharded_optimizer_state(const torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                     const NamedParameters& parameters);

/// Takes this rank's parts of a whole state. Error(data) as load_optimizer_state.
void load_sharded_optimizer_state(torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                  const NamedParameters& parameters, const NamedTensors& state);

}  // namespace lockstep::train
