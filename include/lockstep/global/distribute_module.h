// Conversion of a libtorch module, in place, to one with global parameters and buffers.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/gradient_reduction.h>
#include <lockstep/global/module_plan.h>

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
