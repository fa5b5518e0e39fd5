// Redistribution: moves parts between ranks, so that the same logical tensor has other placements.
#pragma once

#include <lockstep/global/mesh_state.h>

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

namespace lockstep::global {

/// This rank's part after the change; `local` itself where nothing changes. A collective along the axes that change.
/// `sizes` and `format` are the logical ones: an empty part does not tell how the others lie in memory.
at::Tensor redistribute_local(const at::Tensor& local, c10::IntArrayRef sizes, c10::MemoryFormat format,
                              MeshState& mesh, const Placements& from, const Placements& to);

/// This rank's part, contiguous in the value's memory format, of a value that it has whole.
at::Tensor part_of_full(const at::Tensor& full, MeshState& mesh, const Placements& placements);

}  // namespace lockstep::global
