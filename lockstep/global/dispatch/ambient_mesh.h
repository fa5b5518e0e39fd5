// The ambient mesh: the mesh of operators without tensor arguments, such as the factory zeros().
#pragma once

#include <lockstep/global/mesh_state.h>

#include <memory>

namespace lockstep::global {

/// The mesh made last becomes the ambient one. Thread-safe.
void set_ambient_mesh(const std::shared_ptr<MeshState>& mesh);

/// Notes that this thread works with `mesh`: what an operator on its tensors makes inside belongs to it, too.
void work_with(const std::shared_ptr<MeshState>& mesh);

/// That of a MeshScope, else of the last global tensor this thread worked with, else the one made last; nullptr: none.
std::shared_ptr<MeshState> ambient_mesh();

/// The mesh of a MeshScope of this thread, nullptr when there is none.
std::shared_ptr<MeshState> exchange_scoped_mesh(std::shared_ptr<MeshState> mesh);

}  // namespace lockstep::global
