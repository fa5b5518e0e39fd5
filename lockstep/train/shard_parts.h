// The state of a run of which each rank has a part of its own, as a rank has it while there is no group.
#pragma once

#include <lockstep/mirrored/parameter_shards.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/run_state.h>
#include <lockstep/train/shard_standing.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// Which stretches of which parameters are whose.
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

/// What the pieces of one rank and its optimizer hold, "<piece>.parameter" and as optimizer_state: sharing memory.
NamedTensors shard_state(const std::vector<at::Tensor>& pieces, const torch::optim::Optimizer& optimizer);

/// Parameters and optimizer state of the whole model from all ranks' parts, as in a checkpoint; and the ranks' buffers
/// under buffers_key().
NamedTensors assemble(const ShardLayout& layout, const std::vector<NamedTensors>& by_rank);

/// The buffers of a rank that has them for itself, in its part (buffer_ring.h).
inline constexpr const char* kOwnBuffers = "buffers";

/// A rank's own part of one step, and its copy of that of the rank before it.
struct Shards {
  NamedTensors own;
  NamedTensors copy;
};

struct ShardParts {
  ShardLayout layout;          ///< empty where the optimizer is whole on every rank
  Shards shards;               ///< after the last step that this rank has completed
  std::optional<Shards> next;  ///< after the step that follows, as far as it came
};

/// Whose copy this rank keeps.
int rank_before(const Group& group);

/// All that a rank brings along.
struct KeptParts {
  RunState state;
  NamedTensors shared;  ///< "model.<name>", "optimizer.<name>": what is in no part, the same on all ranks
  NamedTensors other;   ///< "model.<name>": what is in this rank's part
  ShardParts parts;
};

/// Without a claim.
Standing standing_of(const RunState& state, const NamedTensors& tensors);
ShardStanding standing_of(const std::optional<KeptParts>& kept);

/// The part that `source` of a choice takes from this rank, which is that source, after `step`.
const NamedTensors& part_from(const KeptParts& kept, const ShardSource& source, std::int64_t step);

}  // namespace lockstep::train
