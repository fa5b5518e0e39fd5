// The search for the one mesh that all global tensors of a state share, and their placements without partial values.
#include <lockstep/state/sharded/mesh_of_tensors.h>

#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/redistribute.h>

namespace lockstep::state {

std::optional<Mesh> mesh_of_tensors(const NamedTensors& tensors) {
  std::optional<Mesh> mesh;
  std::string first;
  for (const auto& [name, tensor] : tensors) {
    if (!is_global(tensor)) continue;
    if (!mesh) {
      mesh = mesh_of(tensor);
      first = name;
    } else if (!(*mesh == mesh_of(tensor))) {
      fail(ErrorKind::invalid_argument, "sharded checkpoint",
           "all tensors of a checkpoint lie on one mesh, but \"{}\" is on {} and \"{}\" on {}; use two folders", first,
           to_string(*mesh), name, to_string(mesh_of(tensor)));
    }
  }
  return mesh;
}

MeshShape shape_of(const Mesh& mesh) { return {.sizes = mesh.sizes(), .names = mesh.names()}; }

Placements finished_placements(const at::Tensor& tensor, std::size_t axes) {
  return is_global(tensor) ? global::placements_of_gradient(placements_of(tensor)) : Placements(axes);
}

}  // namespace lockstep::state
