// Global tensors in checkpoints: their mesh, and the parts of load_sharded, in which each rank fills its tensors with
// saved values.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/named_tensors.h>
#include <lockstep/state/sharded/index.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace at {
class Tensor;
}

namespace lockstep::state {

/// Copies a box of the saved tensor of this name into a tensor of the box's sizes.
using ReadBox = std::function<void(const std::string& name, const Box& box, at::Tensor& into)>;

/// Reads this rank's part of a global tensor, or the whole of an ordinary one, into it. Not a collective.
/// Error(invalid_argument) for a view whose values were fetched from other ranks.
void fill(const std::string& name, const at::Tensor& tensor, const ReadBox& read);

/// The index that rank 0 reads, so that all ranks read the same save. A collective, without communication in a null
/// group.
ShardedIndex shared_index(const std::filesystem::path& folder, const Group* group);

/// Compares all tensors with the index, then fills them. A collective, like shared_index. Errors of load_sharded.
void fill_all(const std::filesystem::path& folder, ShardedIndex index, const NamedTensors& tensors, const Group* group);

/// The mesh of the global tensors; nullopt where all are ordinary. Error(invalid_argument) that names two tensors on
/// different meshes.
std::optional<Mesh> mesh_of_tensors(const NamedTensors& tensors);

MeshShape shape_of(const Mesh& mesh);

/// The placements of a tensor when its partial values are reduced; an ordinary one counts as replicated on the mesh.
Placements finished_placements(const at::Tensor& tensor, std::size_t axes);

}  // namespace lockstep::state
