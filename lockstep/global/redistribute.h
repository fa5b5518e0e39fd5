// Redistribution: moves data between ranks to change the placements of a logical tensor.
#pragma once

#include <lockstep/global/mesh_state.h>

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

namespace lockstep::global {

/// This rank's part after the change; `local` itself if nothing changes. A collective along the axes that change.
/// `sizes` and `format` are the logical ones, because the memory format cannot be derived from an empty part.
at::Tensor redistribute_local(const at::Tensor& local, c10::IntArrayRef sizes, c10::MemoryFormat format,
                              MeshState& mesh, const Placements& from, const Placements& to);

/// This rank's part of a full tensor, contiguous in the memory format of `full`.
at::Tensor part_of_full(const at::Tensor& full, MeshState& mesh, const Placements& placements);

}  // namespace lockstep::global
