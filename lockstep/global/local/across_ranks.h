// Helpers of local forms for communication with the ranks of the other parts.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/global/even_split.h>
#include <lockstep/global/local/local_call.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::global {

using Axes = std::vector<std::size_t>;

/// The placements of the tensor argument of this name, which must be given.
const Placements& placements_of_input(const LocalCall& call, std::string_view argument);

/// The axes of more than one rank that shard `dim`, or that shard another dimension than `dim`.
Axes axes_that_divide(const LocalCall& call, const Placements& placements, std::int64_t dim);
Axes axes_that_divide_others(const LocalCall& call, const Placements& placements, std::int64_t dim);

/// The rows of dimension `dim` of a tensor argument that this rank has.
Part part_of_input(const LocalCall& call, std::string_view argument, std::int64_t dim);

/// Whether this rank is the first along each axis on which a value with these placements is partial. Only that rank
/// adds a term that must be added once.
bool adds_once(const LocalCall& call, const Placements& placements);

/// Reduces `value` in place over the ranks along each axis in turn.
void reduce_over(const LocalCall& call, const Axes& axes, at::Tensor& value, ReduceOp op = ReduceOp::sum);

/// The values of the ranks along an axis, stacked along a new dimension 0.
at::Tensor gather_along(const LocalCall& call, std::size_t axis, const at::Tensor& value);

// For reductions:

/// The dimensions that the call reduces, counted from 0; all dimensions if none are given.
std::vector<std::int64_t> dims_or_all(const LocalCall& call);

/// The axes of more than one rank that shard a reduced dimension: partial results must be combined along them.
Axes axes_to_join(const LocalCall& call);

}  // namespace lockstep::global
