// The mesh of the tensors that are saved or loaded.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/state/named_tensors.h>
#include <lockstep/state/sharded/box.h>

#include <ATen/core/Tensor.h>

#include <optional>

namespace lockstep::state {

/// The mesh of the global tensors; nullopt where all are ordinary. Error(invalid_argument) that names two tensors on
/// different meshes.
std::optional<Mesh> mesh_of_tensors(const NamedTensors& tensors);

MeshShape shape_of(const Mesh& mesh);

/// The placements of a tensor when its partial values are reduced; an ordinary one counts as replicated on the mesh.
Placements finished_placements(const at::Tensor& tensor, std::size_t axes);

}  // namespace lockstep::state
