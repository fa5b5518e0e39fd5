// Differentiable conversions between ordinary and global tensors, and between placements. Callers check the arguments.
#pragma once

#include <lockstep/global/mesh.h>

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include <vector>

namespace lockstep::global {

/// The placements of the gradient of a tensor with these placements: the same, but replicated instead of partial.
Placements placements_of_gradient(const Placements& placements);

/// The logical shape of a tensor, which all ranks know.
struct Whole {
  std::vector<std::int64_t> sizes;
  c10::MemoryFormat format = c10::MemoryFormat::Contiguous;  ///< or channels last
};

at::Tensor differentiable_to_global(const at::Tensor& local, const Mesh& mesh, const Placements& placements,
                                    Whole whole);
at::Tensor differentiable_distribute(const at::Tensor& full, const Mesh& mesh, const Placements& placements);
at::Tensor differentiable_redistribute(const at::Tensor& tensor, const Placements& placements);
at::Tensor differentiable_to_local(const at::Tensor& tensor, const Placements& gradient);

}  // namespace lockstep::global
