// The parts of a distributed run state that a rank keeps while it has no group, and their assembly into a whole state.
#pragma once

#include <lockstep/mirrored/sharded_optimizer.h>
#include <lockstep/state/sharded/sharded_save.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/checkpoint/shard_recovery_state.h>
#include <lockstep/train/checkpoint/state_source.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// The layout of shards: the stretches of parameters that belong to each rank.
struct ShardLayout {
  struct Parameter {
    std::string name;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    at::ScalarType dtype{};
  };
  std::vector<Parameter> parameters;
  std::vector<std::vector<ParameterShards::Stretch>> stretches;  ///< by rank, in the order of its pieces
};

ShardLayout layout_of(const ParameterShards& shards, const NamedParameters& parameters);

/// The state of one rank's pieces and optimizer, "<piece>.parameter" and as optimizer_state: sharing memory.
NamedTensors shard_state(const std::vector<at::Tensor>& pieces, const torch::optim::Optimizer& optimizer);

/// The boxes of a parameter that make up a stretch of its memory, with their values in `run`, a one-dimensional tensor
/// of the stretch's elements. They share its memory.
std::vector<HeldPart> parts_of_run(const at::Tensor& run, const at::Tensor& parameter,
                                   const ParameterShards::Stretch& stretch);

/// The optimizer state of stretches, named by their numbers as of pieces, from a whole state; `outline` is of its
/// optimizer tensors, without "optimizer.", which fit the parameters.
NamedTensors read_stretches(StateSource& source, const NamedTensors& outline, const torch::optim::Optimizer& optimizer,
                            const NamedParameters& parameters, const std::vector<ParameterShards::Stretch>& stretches);

/// Parameters and optimizer state of the whole model from all ranks' parts, as in a checkpoint; and the ranks' buffers
/// under buffers_key().
NamedTensors assemble(const ShardLayout& layout, const std::vector<NamedTensors>& by_rank);

/// The name of a rank's own buffers in its part (buffer_ring.h).
inline constexpr const char* kOwnBuffers = "buffers";

/// A rank's own part of one step, and its copy of the previous rank's part.
struct Shards {
  NamedTensors own;
  NamedTensors copy;
};

struct ShardParts {
  ShardLayout layout;          ///< empty where the optimizer is whole on every rank
  Shards shards;               ///< after the last step that this rank has completed
  std::optional<Shards> next;  ///< after the following step, if the rank completed that
};

/// The rank whose copy this rank keeps.
int rank_before(const Group& group);

/// All state that a rank keeps for the next generation.
struct KeptParts {
  RunState state;
  NamedTensors shared;  ///< "model.<name>", "optimizer.<name>": tensors that belong to no part, equal on all ranks
  NamedTensors other;   ///< "model.<name>": tensors of this rank's part
  ShardParts parts;
};

/// The recovery_state of such a state.
RecoveryState recovery_state_of(const RunState& state, const NamedTensors& tensors);
ShardRecoveryState recovery_state_of(const std::optional<KeptParts>& kept);

/// The part after `step` that the choice takes from this rank, the `source`.
const NamedTensors& part_from(const KeptParts& kept, const ShardSource& source, std::int64_t step);

}  // namespace lockstep::train
