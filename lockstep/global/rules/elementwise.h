// Helpers of several rule families: the placements of an elementwise operator's inputs and outputs. Pure.
#pragma once

#include <lockstep/global/rules/signature.h>

namespace lockstep::global {

/// The placement that an input, broadcast to `output`, needs when the output is sharded along `output_dim`.
std::optional<Placement> shard_like_output(const TensorInfo& input, const TensorInfo& output, std::int64_t output_dim);

/// One signature for each dimension of `shape` with more than one row: all inputs, which are broadcast to it, and all
/// outputs are sharded along that dimension.
std::vector<Signature> shards_of(const OpCall& call, const TensorInfo& shape);

/// The same for the shape of the output.
std::vector<Signature> shards_of_elementwise(const OpCall& call);

/// The shape of the single result, for operators without a meta kernel in libtorch.
std::vector<Sizes> broadcast_shape(const OpCall& call);

}  // namespace lockstep::global
