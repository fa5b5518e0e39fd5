// The distribution of a module's tensors in place, by name patterns; the gradients are then reduced in buckets.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/tensor_state.h>

#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>

namespace lockstep {
namespace {

/// Rejects modules with DataParallel's hooks: these reduce gradients of ordinary tensors, and would get global ones.
void require_unhooked(const std::string& name, const at::Tensor& tensor) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(tensor);
  if (!accumulator || accumulator->post_hooks().empty() || is_global(tensor)) return;
  fail(ErrorKind::invalid_argument, "distribute_module",
       "the gradients of {} have hooks already, as DataParallel installs them; a module is either data parallel or "
       "global",
       name);
}

void distribute_named(const std::string& name, const at::Tensor& tensor, const Mesh& mesh, const Placements& placements,
                      Source source) {
  require_unhooked(name, tensor);
  try {
    distribute_in_place(tensor, mesh, placements, source);
  } catch (const Error& error) {
    throw Error(error.kind(), "distribute_module", name + ": " + error.message());
  }
}

/// A pattern that shards a layer's parameters also matches its counters (`num_batches_tracked`): a buffer without the
/// dimension, or with fewer rows than ranks, stays replicated along that axis.
Placements placements_of_buffer(const at::Tensor& buffer, const Mesh& mesh, Placements placements) {
  for (std::size_t axis = 0; axis < std::min(placements.size(), mesh.axes()); ++axis) {
    auto& each = placements[axis];
    if (each.is_shard() && (each.dim >= buffer.dim() || buffer.size(each.dim) < mesh.size(axis))) each = Replicate();
  }
  return placements;
}

/// Error unless the plan gives a shared tensor the same placements under both of its names.
void require_same(const ModulePlan& plan, const std::string& first, const std::string& second) {
  const auto* a = find_placements(plan, first);
  const auto* b = find_placements(plan, second);
  if (b != nullptr && (a == nullptr || *a != *b)) {
    fail(ErrorKind::config, "distribute_module", "{} and {} are one tensor, but the plan places it as {} and as {}",
         first, second, a != nullptr ? to_string(*a) : "replicated", to_string(*b));
  }
}

}  // namespace

void distribute_in_place(const at::Tensor& tensor, const Mesh& mesh, const Placements& placements, Source source) {
  const auto global_tensor = distribute(tensor.detach(), mesh, placements, source);
  // The tensor's own TensorImpl takes over the content of the new one, so that every handle has it; autograd state
  // (requires_grad, hooks) is kept. set_data() would do the same, but supports only built-in devices.
  tensor.unsafeGetTensorImpl()->shallow_copy_from(global_tensor.getIntrusivePtr());
  if (tensor.grad().defined()) tensor.mutable_grad() = at::Tensor();
}

void distribute_module(torch::nn::Module& module, const Mesh& mesh, const ModulePlan& plan,
                       const DistributeModuleOptions& options) {
  std::vector<std::string> names;
  for (const auto& each : module.named_parameters()) names.push_back(each.key());
  for (const auto& each : module.named_buffers()) names.push_back(each.key());
  check_patterns(plan, names);
  const Placements otherwise(mesh.axes());
  std::map<const at::TensorImpl*, std::string> done;  // a tensor may have several names
  const auto visit = [&](const std::string& name, const at::Tensor& tensor, bool is_buffer) {
    if (!tensor.defined()) return;
    const auto* placements = find_placements(plan, name);
    const auto [first, is_new] = done.emplace(tensor.unsafeGetTensorImpl(), name);
    if (!is_new) return require_same(plan, first->second, name);
    const auto& planned = placements ? *placements : otherwise;
    distribute_named(name, tensor, mesh, is_buffer ? placements_of_buffer(tensor, mesh, planned) : planned,
                     options.source);
  };
  for (const auto& each : module.named_parameters()) visit(each.key(), each.value(), false);
  for (const auto& each : module.named_buffers()) visit(each.key(), each.value(), true);
  reduce_gradients_in_buckets(module.parameters(), options.gradients);
}

}  // namespace lockstep
