// The table of local forms by operator, for operators whose work on a part is not the same call with the parts; the
// mesh axes that divide a dimension, and reductions and gathers along them with their traffic counted.
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/placement.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

namespace lockstep::global {

std::size_t LocalCall::position(std::string_view argument) const {
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == argument) return i;
  }
  throw std::logic_error(op.schema().name() + " has no argument " + std::string(argument));
}

std::vector<std::int64_t> LocalCall::local_output_sizes(std::size_t index) const {
  return local_sizes(plan.outputs[index].shape.sizes, output(index), mesh.sizes(), mesh.coordinate());
}

void LocalCall::give(at::Tensor result) const {
  stack.clear();
  stack.emplace_back(std::move(result));
}

void run_operator(LocalCall& call) { call.op.callBoxed(call.stack); }

LocalForm find_local_form(std::string_view op) {
  static const std::unordered_map<std::string_view, LocalForm> forms{
      {"view", form_with_local_sizes},
      {"_unsafe_view", form_with_local_sizes},
      {"_reshape_alias", form_with_local_sizes},
      {"reshape", form_with_local_sizes},
      {"expand", form_with_local_sizes},
      {"squeeze", form_with_local_sizes},
      {"unsqueeze", form_with_local_sizes},
      {"as_strided", form_of_strided_view},
      {"set", form_of_storage},
      {"tril", form_of_triangle},
      {"triu", form_of_triangle},
      {"norm", form_of_norm},
      {"linalg_vector_norm", form_of_norm},
      {"var", form_of_variance},
      {"std", form_of_variance},
      {"var_mean", form_of_variance},
      {"std_mean", form_of_variance},
      {"mean", form_of_mean},
      {"addmm", form_of_sum_of_product},
      {"baddbmm", form_of_sum_of_batched_product},
      {"addmv", form_of_sum_of_product},
      {"normal", form_of_random},
      {"uniform", form_of_random},
      {"random", form_of_random},
      {"bernoulli", form_of_random},
      {"exponential", form_of_random},
      {"cauchy", form_of_random},
      {"log_normal", form_of_random},
      {"geometric", form_of_random},
      {"select_backward", form_of_cut_backward},
      {"slice_backward", form_of_cut_backward},
      {"convolution", form_of_convolution},
      {"convolution_backward", form_of_convolution_backward},
      {"max_pool2d_with_indices", form_of_planes},
      {"max_pool2d_with_indices_backward", form_of_planes},
      {"max_pool3d_with_indices", form_of_planes},
      {"max_pool3d_with_indices_backward", form_of_planes},
      {"avg_pool2d", form_of_planes},
      {"avg_pool2d_backward", form_of_planes},
      {"avg_pool3d", form_of_planes},
      {"avg_pool3d_backward", form_of_planes},
      {"_adaptive_avg_pool2d", form_of_planes},
      {"_adaptive_avg_pool2d_backward", form_of_planes},
      {"_adaptive_avg_pool3d", form_of_planes},
      {"_adaptive_avg_pool3d_backward", form_of_planes},
      {"adaptive_max_pool2d", form_of_planes},
      {"adaptive_max_pool2d_backward", form_of_planes},
      {"upsample_linear1d", form_of_planes},
      {"upsample_linear1d_backward", form_of_planes},
      {"upsample_nearest1d", form_of_planes},
      {"upsample_nearest1d_backward", form_of_planes},
      {"upsample_nearest2d", form_of_planes},
      {"upsample_nearest2d_backward", form_of_planes},
      {"upsample_bilinear2d", form_of_planes},
      {"upsample_bilinear2d_backward", form_of_planes},
      {"upsample_bicubic2d", form_of_planes},
      {"upsample_bicubic2d_backward", form_of_planes},
      {"reflection_pad1d", form_of_planes},
      {"reflection_pad1d_backward", form_of_planes},
      {"reflection_pad2d", form_of_planes},
      {"reflection_pad2d_backward", form_of_planes},
      {"reflection_pad3d", form_of_planes},
      {"reflection_pad3d_backward", form_of_planes},
      {"replication_pad1d", form_of_planes},
      {"replication_pad1d_backward", form_of_planes},
      {"replication_pad2d", form_of_planes},
      {"replication_pad2d_backward", form_of_planes},
      {"replication_pad3d", form_of_planes},
      {"replication_pad3d_backward", form_of_planes},
      {"native_batch_norm", form_of_batch_norm},
      {"native_batch_norm_backward", form_of_batch_norm_backward},
      {"native_group_norm", form_of_group_norm},
      {"native_group_norm_backward", form_of_group_norm},
      {"_softmax", form_of_softmax},
      {"_log_softmax", form_of_softmax},
      {"_softmax_backward_data", form_of_softmax_backward},
      {"_log_softmax_backward_data", form_of_softmax_backward},
      {"nll_loss_forward", form_of_class_loss},
      {"nll_loss2d_forward", form_of_class_loss},
      {"nll_loss_backward", form_of_class_loss_backward},
      {"nll_loss2d_backward", form_of_class_loss_backward},
      {"mse_loss", form_of_pointwise_loss},
      {"mse_loss_backward", form_of_pointwise_loss},
      {"smooth_l1_loss", form_of_pointwise_loss},
      {"smooth_l1_loss_backward", form_of_pointwise_loss},
      {"huber_loss", form_of_pointwise_loss},
      {"huber_loss_backward", form_of_pointwise_loss},
      {"soft_margin_loss", form_of_pointwise_loss},
      {"soft_margin_loss_backward", form_of_pointwise_loss},
      {"binary_cross_entropy", form_of_pointwise_loss},
      {"binary_cross_entropy_backward", form_of_pointwise_loss},
      {"binary_cross_entropy_with_logits", form_of_pointwise_loss},
      {"_ctc_loss", form_of_sequence_loss},
      {"_ctc_loss_backward", form_of_sequence_loss_backward},
      {"embedding", form_of_embedding},
      {"equal", form_of_equal},
      {"index", form_of_index},
      {"index_put", form_of_index_put},
      {"_index_put_impl", form_of_index_put},
      {"masked_select", form_of_masked_select},
      {"masked_scatter", form_of_masked_scatter},
  };
  const auto found = forms.find(op);
  return found == forms.end() ? nullptr : found->second;
}

bool replaces_operator(LocalForm form) {
  static constexpr std::array kReplacing{form_of_variance,
                                         form_of_softmax,
                                         form_of_softmax_backward,
                                         form_of_batch_norm,
                                         form_of_batch_norm_backward,
                                         form_of_class_loss,
                                         form_of_class_loss_backward,
                                         form_of_embedding};
  return std::find(kReplacing.begin(), kReplacing.end(), form) != kReplacing.end();
}

const Placements& placements_of_input(const LocalCall& call, std::string_view argument) {
  return call.input(call.plan.call.tensor(argument));
}

Axes axes_that_divide(const LocalCall& call, const Placements& placements, std::int64_t dim) {
  Axes axes;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard(dim) && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

Axes axes_that_divide_others(const LocalCall& call, const Placements& placements, std::int64_t dim) {
  Axes axes;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    const auto& each = placements[axis];
    if (each.is_shard() && !each.is_shard(dim) && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

Part part_of_input(const LocalCall& call, std::string_view argument, std::int64_t dim) {
  const auto size = call.plan.call.info(argument).sizes[static_cast<std::size_t>(dim)];
  return part_of(size, dim, placements_of_input(call, argument), call.mesh.sizes(), call.mesh.coordinate());
}

bool adds_once(const LocalCall& call, const Placements& placements) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_partial() && call.mesh.coordinate()[axis] != 0) return false;
  }
  return true;
}

void reduce_over(const LocalCall& call, const Axes& axes, at::Tensor& value, ReduceOp op) {
  if (axes.empty()) return;
  value = value.contiguous();
  for (const auto axis : axes) {
    call.mesh.traffic().all_reduce.count(value.nbytes());
    all_reduce(value, call.mesh.group(axis), op);
  }
}

at::Tensor gather_along(const LocalCall& call, std::size_t axis, const at::Tensor& value) {
  const auto sent = value.contiguous().unsqueeze(0);
  call.mesh.traffic().all_gather.count(sent.nbytes());
  return all_gather(sent, call.mesh.group(axis));
}

std::vector<std::int64_t> dims_or_all(const LocalCall& call) {
  const auto count = call.plan.call.tensors[0].dim();
  auto dims = call.plan.call.integers("dim");
  for (auto& dim : dims) dim = wrapped_dim(dim, count);
  if (!dims.empty()) return dims;
  dims.resize(static_cast<std::size_t>(count));
  std::iota(dims.begin(), dims.end(), std::int64_t{0});
  return dims;
}

Axes axes_to_join(const LocalCall& call) {
  const auto dims = dims_or_all(call);
  Axes axes;
  for (std::size_t axis = 0; axis < call.mesh.sizes().size(); ++axis) {
    const auto& placement = call.input(0)[axis];
    const bool reduced = placement.is_shard() && std::find(dims.begin(), dims.end(), placement.dim) != dims.end();
    if (reduced && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

}  // namespace lockstep::global
