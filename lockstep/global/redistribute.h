// Redistribution: moves data between ranks to change the placements of a logical tensor, and differentiable conversions
// between ordinary and global tensors and between placements.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh_state.h>

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::global {

/// This rank's part after the change; `local` itself if nothing changes. A collective along the axes that change.
/// `sizes` and `format` are the logical ones, because the memory format cannot be derived from an empty part.
at::Tensor redistribute_local(const at::Tensor& local, c10::IntArrayRef sizes, c10::MemoryFormat format,
                              MeshState& mesh, const Placements& from, const Placements& to);

/// Whether the change is a single gather, along one axis of more than one rank.
bool is_one_gather(const Placements& from, const Placements& to, std::span<const int> mesh_sizes);

/// A gather that may overlap with other work.
struct BegunGather {
  Work work;
  at::Tensor gathered;             ///< the concatenated parts of the ranks, with `dim` in front
  std::int64_t dim = 0;            ///< the dimension that was divided
  std::vector<std::int64_t> rows;  ///< of each rank's part
  std::int64_t largest = 0;        ///< of `rows`
  c10::MemoryFormat format = c10::MemoryFormat::Contiguous;
};

/// redistribute_local() for is_one_gather(), in two steps: between them, `local` must not be written to.
BegunGather begin_gather(const at::Tensor& local, c10::IntArrayRef sizes, c10::MemoryFormat format, MeshState& mesh,
                         const Placements& from, const Placements& to);
at::Tensor finish_gather(BegunGather gather);

/// This rank's part of a full tensor, contiguous in the memory format of `full`.
at::Tensor part_of_full(const at::Tensor& full, MeshState& mesh, const Placements& placements);

// The differentiable conversions; callers check the arguments.

/// The placements of the gradient of a tensor with these placements: the same, but replicated instead of partial.
Placements placements_of_gradient(const Placements& placements);

/// The logical shape of a tensor, which is available on all ranks.
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
