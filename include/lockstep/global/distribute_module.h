// Conversion of a libtorch module, in place, to one with global parameters and buffers.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

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

}  // namespace lockstep

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace lockstep {

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
