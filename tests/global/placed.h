// Tensors that every rank knows whole, made to lie in a given way.
#pragma once

#include <lockstep/global/global_tensor.h>

namespace lockstep::test {

/// A global tensor of the values of `full`, without any exchange. What ranks hold of a partial one differs.
at::Tensor placed(const at::Tensor& full, const Mesh& mesh, const Placements& placements);

/// The ways that a tensor of `dims` dimensions may lie along one axis: partial ones only where `partial`.
std::vector<Placement> ways_to_lie(std::int64_t dims, bool partial);

}  // namespace lockstep::test
