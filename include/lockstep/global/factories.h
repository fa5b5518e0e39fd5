// Factories of global tensors with given placements.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/TensorOptions.h>

namespace lockstep {

// Each function creates a tensor of logical `sizes` with `placements`. Of `options`, only dtype and requires_grad are
// used; the parts are on the CPU. No communication. Functions that draw from libtorch's default generator are not
// thread-safe. Errors: invalid_argument for negative sizes and for placements that do not fit the mesh.
//
// zeros, ones and full allocate this rank's part only. With a partial placement, the reduction of all parts is the
// value.

at::Tensor zeros(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                 const at::TensorOptions& options = {});
at::Tensor ones(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options = {});
at::Tensor full(at::IntArrayRef sizes, const at::Scalar& value, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options = {});

// Random values are those that one device would draw: every rank draws all of them, temporarily in a buffer of the full
// size, and keeps its part. After the same torch::manual_seed on all ranks, values depend neither on the mesh nor on
// the placements.

/// Uniformly distributed in [0, 1).
at::Tensor rand(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options = {});
/// Normally distributed with mean 0 and variance 1.
at::Tensor randn(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                 const at::TensorOptions& options = {});

}  // namespace lockstep
