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
// calls the same operators in the same order: an operator may be a collective, and so may be taking a number out of a
// tensor, printing it, or copying it to the CPU. What an operator can do with divided inputs: docs/global_ops.md. Not
// thread-safe beside other collectives of the same groups.
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

/// Errors of these four: invalid_argument when the tensor is not global.
Mesh mesh_of(const at::Tensor& tensor);
Placements placements_of(const at::Tensor& tensor);
/// "float32[64, 512] on 2x2 (data, model): [Shard(0), Replicate()], here [32, 512]"; ordinary tensors are described,
/// too.
std::string describe(const at::Tensor& tensor);
/// The sizes of this rank's part.
std::vector<std::int64_t> local_sizes_of(const at::Tensor& tensor);

/// Each rank's part makes one logical tensor: parts are concatenated along sharded dimensions (and must be as large as
/// part sizes of a balanced division are: Error(mismatch) on all ranks otherwise), reduced where partial, and taken to
/// be equal where replicated (they are not compared). No numbers are sent; `local` is shared, not copied.
/// Differentiable: the gradient arrives with these placements, where partial replicated.
at::Tensor to_global(const at::Tensor& local, const Mesh& mesh, const Placements& placements);

enum class Source {
  rank0,            ///< the values of the mesh's first rank; one broadcast
  same_everywhere,  ///< every rank has the same values already: nothing is sent
};

/// Makes a global tensor of one that ranks have whole: each keeps its part. Differentiable where `same_everywhere`.
at::Tensor distribute(const at::Tensor& full, const Mesh& mesh, const Placements& placements,
                      Source source = Source::rank0);

/// The same logical tensor with other placements. Differentiable.
at::Tensor redistribute(const at::Tensor& tensor, const Placements& placements);

/// This rank's part, in memory shared with `tensor`; a collective for a view that is fetched again (docs/global.md).
/// Differentiable: this rank's gradient is its part of the logical one, placed like `tensor` or as `gradient` says;
/// Partial(sum) where ranks computed different things from a replicated tensor. That of a partial one is replicated.
at::Tensor to_local(const at::Tensor& tensor, const std::optional<Placements>& gradient = std::nullopt);

/// The whole tensor on every rank, as an ordinary one. Differentiable: every rank's gradient is taken to be the same.
at::Tensor full(const at::Tensor& tensor);

/// While it exists, factories of this thread make their tensors on this mesh.
class MeshScope {
 public:
  explicit MeshScope(const Mesh& mesh);
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;

 private:
  std::shared_ptr<global::MeshState> before_;
};

/// Operators without a sharding rule are errors instead of gathering their inputs. Also LOCKSTEP_GLOBAL_STRICT=1.
void set_strict_global_ops(bool strict);

}  // namespace lockstep
