// Global tensors: one logical tensor, divided over the ranks of a mesh, that libtorch's operators, modules, autograd
// and optimizers take like any other.
//
//     lockstep::Mesh mesh(lockstep::init(), {2, 2}, {"data", "model"});
//     auto x = lockstep::distribute(batch, mesh, {Shard(0), Replicate()});
//     auto w = lockstep::distribute(weight, mesh, {Replicate(), Shard(1)});
//     auto y = x.mm(w);                       // [Shard(0), Shard(1)], nothing sent
//     std::cout << lockstep::describe(y);     // float32[64, 512] on 2x2 (data, model): [Shard(0), Shard(1)], ...
//
// A global tensor is an at::Tensor of logical sizes on a device of its own (global_device()). Every rank of the mesh
// calls the same operators in the same order: an operator may be a collective, and so may be reading a value of a
// tensor (`item()`), printing it, or copying it to the CPU. docs/global_ops.md lists what each operator supports with
// divided inputs. Not thread-safe beside other collectives of the same groups.
#pragma once

#include <lockstep/global/mesh.h>
#include <lockstep/global/placement.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}

namespace lockstep {

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
/// LOCKSTEP_GLOBAL_STRICT=1 in the environment does the same.
void set_strict_global_ops(bool strict);

}  // namespace lockstep
