// The mesh that tensors to be saved or loaded lie on.
#pragma once

#include <lockstep/global/mesh.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/sharded/box.h>

#include <ATen/core/Tensor.h>

#include <optional>

namespace lockstep::train {

/// That of the global tensors; nullopt where all are ordinary. Error(invalid_argument) that names two tensors on
/// different meshes.
std::optional<Mesh> mesh_of_tensors(const NamedTensors& tensors);

MeshShape shape_of(const Mesh& mesh);

/// How a tensor lies when its partial values are finished; an ordinary one counts as replicated on the mesh.
Placements finished_placements(const at::Tensor& tensor, std::size_t axes);

}  // namespace lockstep::train
