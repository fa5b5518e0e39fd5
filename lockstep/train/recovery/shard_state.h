// The state of an optimizer in shards: as boxes of the parameters, for checkpoints, and as parts that a rank keeps.
#pragma once

#include <lockstep/mirrored/sharded_optimizer.h>
#include <lockstep/state/sharded/sharded_save.h>
#include <lockstep/state/state_source.h>
#include <lockstep/train/optimizer.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::train {

/// The state of one rank's pieces and optimizer, "<piece>.parameter" and as optimizer_state: sharing memory.
NamedTensors shard_state(const std::vector<at::Tensor>& pieces, const torch::optim::Optimizer& optimizer);

/// The same under the names of kept_state.h: "<begin>.model.<parameter>", "<begin>.optimizer.<parameter>.<field>". The
/// pieces are those of `stretches`.
NamedTensors named_by_place(const NamedTensors& shard, const std::vector<ParameterShards::Stretch>& stretches,
                            const NamedParameters& parameters);

/// The tensors that such parts of all ranks make up, without values.
NamedTensors divided_tensors(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters);

/// The boxes of a parameter that make up a stretch of its memory, with their values in `run`, a one-dimensional tensor
/// of the stretch's elements. They share its memory.
std::vector<HeldPart> parts_of_run(const at::Tensor& run, const at::Tensor& parameter,
                                   const ParameterShards::Stretch& stretch);

/// The optimizer state of stretches, named by their numbers as of pieces, from a whole state; `outline` is of its
/// optimizer tensors, without "optimizer.", which fit the parameters.
NamedTensors read_stretches(StateSource& source, const NamedTensors& outline, const torch::optim::Optimizer& optimizer,
                            const NamedParameters& parameters, const std::vector<ParameterShards::Stretch>& stretches);

}  // namespace lockstep::train
