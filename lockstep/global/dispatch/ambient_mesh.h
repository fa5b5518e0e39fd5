// The ambient mesh: the mesh of operators without tensor arguments, such as the factory zeros().
#pragma once

#include <lockstep/global/mesh_state.h>

#include <memory>

namespace lockstep::global {

/// Sets the ambient mesh of the process: the mesh created last. Thread-safe.
void set_ambient_mesh(const std::shared_ptr<MeshState>& mesh);

/// Records that this thread works with `mesh`, so that tensors that operators create internally get the same mesh.
void work_with(const std::shared_ptr<MeshState>& mesh);

/// The mesh of a MeshScope, else of the last global tensor that this thread used, else the mesh created last; nullptr
/// if there is none.
std::shared_ptr<MeshState> ambient_mesh();

/// Sets the mesh of this thread's MeshScope and returns the previous one; nullptr: none.
std::shared_ptr<MeshState> exchange_scoped_mesh(std::shared_ptr<MeshState> mesh);

}  // namespace lockstep::global
