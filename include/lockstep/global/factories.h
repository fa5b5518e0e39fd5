// Factories of global tensors with given placements.
#pragma once

#include <lockstep/global/mesh.h>
#include <lockstep/global/placement.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/TensorOptions.h>

namespace lockstep {

// Each makes a tensor of logical `sizes` that lies as `placements` say. Of `options` count dtype and requires_grad; the
// parts are on the CPU. Nothing is sent. Not thread-safe where they draw from libtorch's default generator. Errors:
// invalid_argument, for negative sizes and placements that do not fit the mesh.
//
// zeros, ones and full make this rank's part alone. Where partial, the reduction of the parts is the value.

at::Tensor zeros(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                 const at::TensorOptions& options = {});
at::Tensor ones(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options = {});
at::Tensor full(at::IntArrayRef sizes, const at::Scalar& value, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options = {});

// Random numbers are those that one device would draw: every rank draws all of them, in a buffer of the whole size for
// a moment, and keeps its part. After the same torch::manual_seed on all ranks, values depend neither on the mesh nor
// on the placements.

/// Uniform in [0, 1).
at::Tensor rand(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options = {});
/// Normal, of mean 0 and variance 1.
at::Tensor randn(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                 const at::TensorOptions& options = {});

}  // namespace lockstep
