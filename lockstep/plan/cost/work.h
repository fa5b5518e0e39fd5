// The work of one rank for an operator, given its parts of the tensors. Pure.
#pragma once

#include <lockstep/global/rules/op_call.h>
#include <lockstep/global/transitions.h>
#include <lockstep/plan/cost/cost_model.h>

#include <span>
#include <vector>

namespace lockstep::plan {

/// The sizes of the largest part of a tensor over all ranks.
global::Sizes largest_part(const global::TensorInfo& info, const Placements& placements,
                           std::span<const int> mesh_sizes);
/// The bytes of the largest part of a tensor.
Bytes bytes_of_part(const global::TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes);

/// Whether the call's outputs are views of its first input.
bool is_view(const global::OpCall& call);

/// The work of one rank for a call. `inputs` and `outputs` are the sizes of its parts, one for each tensor of the call.
Work work_of(const global::OpCall& call, std::span<const global::Sizes> inputs, std::span<const global::Sizes> outputs);

/// The work to read and prepare a rank's part of an input on the host. It is small, but makes a sharded batch better
/// than one that each rank reads completely.
Work loading_of(Bytes part);

/// The work to copy a gradient of that many bytes into a bucket before a reduction, or out of it afterwards.
Work copying_of(Bytes gradient);

/// The copies of a step of redistribute(): collectives need the divided dimension in front, and separate result
/// tensors. `before` and `after` are the bytes of a rank's part.
Work copying_of_step(const global::Step& step, Bytes before, Bytes after);

/// A collective inside an operator with sharded inputs: the statistics of a batch norm, or the sum of a softmax along a
/// sharded dimension.
struct InnerCollective {
  Collective kind = Collective::all_reduce;
  std::size_t axis = 0;
  Bytes bytes{};
};
std::vector<InnerCollective> inner_collectives(const global::OpCall& call, std::span<const Placements> inputs,
                                               std::span<const int> mesh_sizes);

}  // namespace lockstep::plan
