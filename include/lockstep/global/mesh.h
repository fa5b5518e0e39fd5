// The device mesh: the ranks of a group arranged along named axes.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/global/placement.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

namespace global {
class MeshState;
}

/// A handle to an arrangement of all ranks of a group, cheap to copy. Ranks are in row-major order (the last axis
/// varies fastest): in a mesh {2, 4}, rank 5 is at (1, 1). Two handles are the same mesh when one was copied from the
/// other; tensors of different meshes do not mix.
///
///     lockstep::Mesh mesh(group, {2, 4}, {"data", "model"});
///
/// A collective: every rank of the group constructs it with the same arguments. The product of the sizes is the group's
/// size. Names default to "0", "1", ... Errors: invalid_argument, and those of Group::subgroup.
/// Not thread-safe beside collectives of the same group.
class Mesh {
 public:
  Mesh(Group group, std::vector<int> sizes, std::vector<std::string> names = {});
  /// A mesh with one axis, of all ranks of `group`.
  explicit Mesh(Group group);

  const std::vector<int>& sizes() const;
  const std::vector<std::string>& names() const;
  std::size_t axes() const { return sizes().size(); }
  int size(std::size_t axis) const;
  /// The index of the axis with this name. Error(invalid_argument) that lists the existing names.
  std::size_t axis(std::string_view name) const;
  /// The coordinate of this rank, one number for each axis.
  const std::vector<int>& coordinate() const;
  /// The group of the ranks whose coordinates differ from this rank's along `axis` only, in the order of that
  /// coordinate.
  const Group& group(std::size_t axis) const;
  /// The group of all ranks of the mesh.
  const Group& group() const;

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.state_ == b.state_; }

  explicit Mesh(std::shared_ptr<global::MeshState> state) : state_(std::move(state)) {}
  const std::shared_ptr<global::MeshState>& state() const { return state_; }

 private:
  std::shared_ptr<global::MeshState> state_;
};

/// "2x4 (data, model)".
std::string to_string(const Mesh& mesh);

}  // namespace lockstep
