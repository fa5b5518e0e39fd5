// Global tensors: one logical tensor, divided over the ranks of a mesh, that libtorch's operators, modules, autograd
// and optimizers accept like any other; and the conversion of a libtorch module, in place, to one with global
// parameters and buffers.
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
#include <utility>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}
namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

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

// The placements of a module's parameters, by name pattern. Pure functions: thread-safe.

/// `{{"*.weight", {Shard(0)}}, {"fc*.bias", {Shard(0)}}}`: the first pattern that matches a name gives the placements
/// of that parameter or buffer; those that match no pattern are replicated. In a pattern `*` stands for any characters,
/// dots included, and `?` for one.
using ModulePlan = std::vector<std::pair<std::string, Placements>>;

/// Whether `name` matches `pattern`.
bool fits(std::string_view name, std::string_view pattern);

/// The placements for `name`; nullptr when no pattern matches.
const Placements* find_placements(const ModulePlan& plan, std::string_view name);

/// Error(config) naming the first pattern that matches none of `names`, and the name that is nearest to it.
void check_patterns(const ModulePlan& plan, const std::vector<std::string>& names);

// The reduction of global parameters' gradients during backward: gradients that are partial, because ranks had
// different data, are reduced in buckets, not one by one when the optimizer reads them.

/// Limits of the buckets that are reduced at the same time, because buckets take memory: at most four (the first is
/// most likely done when a fifth is full), and together at most 200 MiB, unless it is a single bucket.
inline constexpr std::size_t kMostBucketsUnderWay = 4;
inline constexpr std::int64_t kMostBytesUnderWay = 200 << 20;

struct GradientReductionOptions {
  std::int64_t bucket_bytes = 25 << 20;       ///< gradients are reduced in buckets of about this size
  std::int64_t first_bucket_bytes = 1 << 20;  ///< the first is smaller, so that communication starts early
};

/// Makes `backward()` reduce the partial gradients of these global leaf tensors: when it returns, each `.grad()` has
/// the placements of its parameter. Gradients are summed (all_reduce) over axes on which the parameter is replicated,
/// and summed and scattered (reduce_scatter) where it is sharded. Lasts as long as the parameters do. Call it once for
/// each parameter; distribute_module() does so. Not thread-safe; one backward at a time.
///
/// Where `zero_grad(/*set_to_none=*/true)` removed the old gradient, and the parameter is contiguous, the sums of the
/// last buckets stay in bucket memory: the gradient then keeps its bucket's memory alive. When the next backward needs
/// that memory, it moves the values of gradients that are still held. From then on pointers to them and views made
/// outside libtorch (data_ptr(), from_blob, DLPack) are invalid. While backward runs, no other thread and no pending
/// Work may use an earlier gradient. Use a clone() for that.
void reduce_gradients_in_buckets(const std::vector<at::Tensor>& parameters,
                                 const GradientReductionOptions& options = {});

/// A scope for gradient accumulation without communication. While it exists, backward on this thread leaves partial
/// gradients unreduced, and the next backward adds to them. The first backward outside of the scope reduces the sums.
///
///     for (int i = 0; i < 3; ++i) {
///       lockstep::HoldGradients hold;
///       loss_of(batches[i]).backward();
///     }
///     loss_of(batches[3]).backward();
///
/// Exception: where a parameter is sharded along an axis on which its gradient is partial, the gradient is reduced and
/// sharded in every backward. An unreduced full gradient would take the memory that sharding the parameter saves.
class HoldGradients {
 public:
  HoldGradients();
  ~HoldGradients();
  HoldGradients(const HoldGradients&) = delete;
  HoldGradients& operator=(const HoldGradients&) = delete;

 private:
  bool before_;
};

// The conversion of a module.

struct DistributeModuleOptions {
  Source source = Source::rank0;  ///< the ranks whose values are used
  GradientReductionOptions gradients{};
};

/// Turns the parameters and buffers of any torch::nn::Module into global tensors, in place: members of the module, and
/// all other handles to the same tensors, become global. Gradients that are partial (because ranks had different data)
/// are reduced in buckets during backward. Construct the optimizer after this call.
///
///     lockstep::distribute_module(*model, mesh, {{"fc.weight", {Replicate(), Shard(0)}}, {"fc.bias", {Replicate(),
///     Shard(0)}}});
///
/// A buffer stays replicated when it lacks the dimension that its pattern shards (`num_batches_tracked` under "bn.*"),
/// or when that dimension has fewer rows than there are ranks.
///
/// A collective. Errors: config for a pattern that matches nothing; invalid_argument naming a parameter that lacks the
/// sharded dimension, is global already, or is not on the CPU.
void distribute_module(torch::nn::Module& module, const Mesh& mesh, const ModulePlan& plan = {},
                       const DistributeModuleOptions& options = {});

template <typename Contained>
void distribute_module(const torch::nn::ModuleHolder<Contained>& holder, const Mesh& mesh, const ModulePlan& plan = {},
                       const DistributeModuleOptions& options = {}) {
  distribute_module(*holder.ptr(), mesh, plan, options);
}

/// The same for one tensor, such as a parameter outside of any module: all handles to it become global.
void distribute_in_place(const at::Tensor& tensor, const Mesh& mesh, const Placements& placements,
                         Source source = Source::rank0);

}  // namespace lockstep
