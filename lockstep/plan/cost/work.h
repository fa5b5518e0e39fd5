// The work of one rank for an operator, given its parts of the tensors. Pure.
#pragma once

#include <lockstep/global/rules/op_call.h>
#include <lockstep/global/transitions.h>
#include <lockstep/plan/cost/cost_model.h>

#include <span>
#include <vector>

namespace lockstep::plan {

/// Sizes of the largest part of a tensor.
global::Sizes largest_part(const global::TensorInfo& info, const Placements& placements,
                           std::span<const int> mesh_sizes);
/// Its bytes.
Bytes bytes_of_part(const global::TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes);

/// Whether its outputs are views of its first input's memory.
bool is_view(const global::OpCall& call);

/// `inputs` and `outputs` are the sizes of the parts, one for each of the call's.
Work work_of(const global::OpCall& call, std::span<const global::Sizes> inputs, std::span<const global::Sizes> outputs);

/// Reading and preparing a rank's part of an input on the host, beside what the step computes: small, but it makes a
/// batch that is divided better than one that each rank reads as a whole.
Work loading_of(Bytes part);

/// Copying a gradient of that many bytes into a bucket before a reduction, or out of it afterwards.
Work copying_of(Bytes gradient);

/// What a step of redistribute() copies beside what it sends, `before` and `after` being the bytes of a rank's part:
/// collectives want the dimension that they divide in front, and results of their own.
Work copying_of_step(const global::Step& step, Bytes before, Bytes after);

/// A collective that an operator makes by itself where its input is divided: a batch norm's statistics, the sum of a
/// softmax along a divided dimension.
struct InnerCollective {
  Collective kind = Collective::all_reduce;
  std::size_t axis = 0;
  Bytes bytes{};
};
std::vector<InnerCollective> inner_collectives(const global::OpCall& call, std::span<const Placements> inputs,
                                               std::span<const int> mesh_sizes);

}  // namespace lockstep::plan
