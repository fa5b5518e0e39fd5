// Global tensors: one logical tensor, divided over the ranks of a mesh, that libtorch's operators, modules, autograd
// and optimizers accept like any other.
//
//     lockstep::Mesh mesh(lockstep::init(), {2, 2}, {"data", "model"});
//     auto x = lockstep::distribute(batch, mesh, {Shard(0), Replicate()});
//     auto w = lockstep::distribute(weight, mesh, {Replicate(), Shard(1)});
//     auto y = x.mm(w);                       // [Shard(0), Shard(1)], nothing sent
//     std::cout << lockstep::describe(y);     // float32[64, 512] on 2x2 (data, model): [Shard(0), Shard(1)], ...
//
// A global tensor is an at::Tensor of logical sizes on a special device (global_device()). Every rank of the mesh
// calls the same operators in the same order: an operator may be a collective, and so may be reading a value of a
// tensor (`item()`), printing it, or copying it to the CPU. docs/global.md lists what each operator supports with
// divided inputs. Not thread-safe beside other collectives of the same groups.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}

namespace lockstep {

// Placements: how one logical tensor is distributed over the ranks along one axis of a mesh. Plain values and pure
// functions: thread-safe.

/// One of Shard(dim), Replicate(), Partial(op). OneFlow calls them split, broadcast and partial_sum (S, B, P); a value
/// of MindSpore's strategy tuple greater than one is a Shard.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial };

  Kind kind = Kind::replicate;
  ReduceOp op = ReduceOp::sum;  ///< of a partial placement: sum, mean, min or max
  std::int32_t dim = 0;         ///< of a shard: the sharded dimension, from 0

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_shard(std::int64_t of_dim) const { return kind == Kind::shard && dim == of_dim; }
  bool is_partial() const { return kind == Kind::partial; }
  bool is_partial(ReduceOp of_op) const { return kind == Kind::partial && op == of_op; }

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// One placement for each axis of the mesh. Where several axes shard the same dimension, the first axis divides the
/// dimension, the next axis divides each of these parts, and so on.
using Placements = std::vector<Placement>;

/// Rank i along the axis holds the i-th part of dimension `dim`. Part sizes differ by at most one row, larger parts
/// first; some parts are empty when there are fewer rows than ranks. Error(invalid_argument) for a negative `dim`.
Placement Shard(std::int64_t dim);
/// The reductions that a partial placement may have.
inline constexpr std::array kPartialOps{ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min};

/// Every rank along the axis holds the same values.
Placement Replicate();
/// The value is the reduction of the tensors that the ranks along the axis hold. Error(invalid_argument) for product.
Placement Partial(ReduceOp op = ReduceOp::sum);

/// "Shard(0)", "Replicate()", "Partial(sum)".
std::string to_string(const Placement& placement);
/// "[Shard(0), Replicate()]".
std::string to_string(const Placements& placements);

/// Parses "[Shard(0), Replicate()]" and shorter forms: without brackets; `S0`, `R` or `B`, `P`; or OneFlow's
/// `split(0)`, `broadcast`, `partial_sum` (also with `flow.sbp.` before them). Error(invalid_argument) that shows the
/// position of the mistake.
Placements parse_placements(std::string_view text);

namespace global {
class MeshState;
}

// The device mesh: the ranks of a group arranged along named axes.

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
  /// The device of the parts of its tensors: that of its group (Group::device).
  c10::Device device() const;

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.state_ == b.state_; }

  explicit Mesh(std::shared_ptr<global::MeshState> state) : state_(std::move(state)) {}
  const std::shared_ptr<global::MeshState>& state() const { return state_; }

 private:
  std::shared_ptr<global::MeshState> state_;
};

/// "2x4 (data, model)".
std::string to_string(const Mesh& mesh);

/// The device of global tensors. Factories with it make replicated tensors on the current mesh.
c10::Device global_device();

bool is_global(const at::Tensor& tensor);

/// The mesh of a global tensor. mesh_of(), placements_of() and local_sizes_of() throw Error(invalid_argument) for a
/// tensor that is not global.
Mesh mesh_of(const at::Tensor& tensor);
Placements placements_of(const at::Tensor& tensor);
/// "float32[64, 512] on 2x2 (data, model): [Shard(0), Replicate()], here [32, 512]"; ordinary tensors are described,
/// too.
std::string describe(const at::Tensor& tensor);
/// The sizes of this rank's part of a global tensor.
std::vector<std::int64_t> local_sizes_of(const at::Tensor& tensor);

/// Makes one logical tensor of the ranks' parts: parts are concatenated along sharded dimensions, reduced where
/// partial, and assumed to be equal where replicated (they are not compared). The sizes of sharded parts must be those
/// of a balanced division (see Shard), otherwise Error(mismatch) on all ranks. No values are sent; `local` is shared,
/// not copied. Differentiable: the gradient has these placements, with Replicate instead of Partial.
at::Tensor to_global(const at::Tensor& local, const Mesh& mesh, const Placements& placements);

enum class Source {
  rank0,            ///< the values of the mesh's first rank; one broadcast
  same_everywhere,  ///< every rank already has the same values: nothing is sent
};

/// Makes a global tensor from a full tensor on every rank: each rank keeps its part. Differentiable with
/// `same_everywhere`.
at::Tensor distribute(const at::Tensor& full, const Mesh& mesh, const Placements& placements,
                      Source source = Source::rank0);

/// The same logical tensor with other placements. Differentiable.
at::Tensor redistribute(const at::Tensor& tensor, const Placements& placements);

/// This rank's part, in memory shared with `tensor`; a collective for a view that is fetched again (docs/global.md).
/// Differentiable: the gradient of the part that a rank returns is its part of the logical gradient, whose placements
/// are `gradient`, by default those of `tensor` with Replicate instead of Partial. Pass Partial(sum) where ranks
/// compute different results from a replicated tensor.
at::Tensor to_local(const at::Tensor& tensor, const std::optional<Placements>& gradient = std::nullopt);

/// The full tensor on every rank, as an ordinary tensor. Differentiable: the ranks' gradients are assumed to be equal.
at::Tensor full(const at::Tensor& tensor);

/// A scope that selects the current mesh: while it exists, factories of this thread (torch::zeros and the like on
/// global_device()) create their tensors on this mesh.
class MeshScope {
 public:
  explicit MeshScope(const Mesh& mesh);
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;

 private:
  std::shared_ptr<global::MeshState> before_;
};

/// With `strict`, operators without a sharding rule throw Error(unsupported) instead of gathering their inputs.
/// LOCKSTEP_GLOBAL_STRICT=1 in the environment does the same; LOCKSTEP_GLOBAL_STRICT=list logs each way that gathers.
void set_strict_global_ops(bool strict);

/// The calls on this mesh so far whose divided inputs were gathered, so that every rank computed the whole result: the
/// operator and the placements of its inputs, how often, and the bytes that this rank received. Most bytes first.
/// `item()`, which needs all of a tensor, is not one of them.
std::vector<std::string> gathering_calls(const Mesh& mesh);

/// For a program without global tensors that forks: called before the first backward(), it keeps libtorch from starting
/// a thread for their device, without which a forked child can call backward(), too. Global tensors have no backward()
/// then.
void leave_out_global_device();

}  // namespace lockstep
