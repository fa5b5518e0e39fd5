// The local part of an operator: the work of this rank on its parts, once they have the placements of the rule; and its
// communication with the ranks of the other parts.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/placement.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::global {

struct LocalCall {
  const c10::OperatorHandle& op;
  torch::jit::Stack& stack;  ///< in: the arguments, with this rank's parts for tensors; out: the results
  const Plan& plan;
  MeshState& mesh;

  /// The position of an argument on the stack. The name must be one of the schema's.
  std::size_t position(std::string_view argument) const;
  c10::IValue& argument(std::string_view name) const { return stack[position(name)]; }

  /// The placements of input tensor `index` (of OpCall::tensors) and of output `index`.
  const Placements& input(std::size_t index) const { return plan.inputs[index]->placements; }
  const Placements& output(std::size_t index = 0) const { return plan.outputs[index].sharding->placements; }

  /// This rank's sizes of output `index`.
  std::vector<std::int64_t> local_output_sizes(std::size_t index = 0) const;

  /// Replaces the arguments by one result.
  void give(at::Tensor result) const;
};

/// Calls the operator itself on the stack.
void run_operator(LocalCall& call);

/// The local form of an operator; nullptr if it has none. By base name, like rules.
LocalForm find_local_form(std::string_view op);

/// Whether the form computes the result by itself when inputs are sharded, so that the operator itself does not check
/// dtypes and empty inputs.
bool replaces_operator(LocalForm form);

// The forms, one file for each family.
void form_with_local_sizes(LocalCall& call);   ///< views and similar, whose `size` argument has the result's sizes
void form_of_mean(LocalCall& call);            ///< divides by the logical number of elements
void form_of_sum_of_product(LocalCall& call);  ///< addmm, addmv: adds `self` once where the product is partial
void form_of_sum_of_batched_product(LocalCall& call);  ///< baddbmm
void form_of_norm(LocalCall& call);                    ///< norm, linalg_vector_norm over divided dimensions
void form_of_variance(LocalCall& call);                ///< var, std, var_mean, std_mean over divided dimensions
void form_of_strided_view(LocalCall& call);            ///< as_strided: its strides are those of the full tensor
void form_of_triangle(LocalCall& call);                ///< tril, triu: the position of the diagonal in this part
[[noreturn]] void form_of_storage(LocalCall& call);    ///< set_: a global tensor has no separate memory
void form_of_random(LocalCall& call);                  ///< numbers that do not depend on the placement
void form_of_cut_backward(LocalCall& call);            ///< select_backward, slice_backward: `input_sizes`
void form_of_convolution(LocalCall& call);             ///< groups of a part; the bias is added once
void form_of_convolution_backward(LocalCall& call);
void form_of_planes(LocalCall& call);      ///< pooling and resampling, also without any planes
void form_of_batch_norm(LocalCall& call);  ///< statistics of the logical batch; updates running statistics
void form_of_batch_norm_backward(LocalCall& call);
void form_of_group_norm(LocalCall& call);  ///< forward and backward
void form_of_softmax(LocalCall& call);     ///< softmax and log_softmax, also along a sharded dimension
void form_of_softmax_backward(LocalCall& call);
void form_of_class_loss(LocalCall& call);  ///< nll_loss: sharded batch or classes
void form_of_class_loss_backward(LocalCall& call);
void form_of_pointwise_loss(LocalCall& call);  ///< forward and backward: the mean over the logical count
void form_of_sequence_loss(LocalCall& call);   ///< ctc_loss: lengths and targets of this rank's part of the batch
void form_of_sequence_loss_backward(LocalCall& call);
void form_of_embedding(LocalCall& call);       ///< a sharded table
void form_of_index(LocalCall& call);           ///< x[mask]: the concatenated selections of the ranks
void form_of_index_put(LocalCall& call);       ///< x[mask] = values: the offset of this rank's values
void form_of_equal(LocalCall& call);           ///< one result for all parts
void form_of_masked_select(LocalCall& call);   ///< the concatenated selections of the ranks
void form_of_masked_scatter(LocalCall& call);  ///< the offset of this rank's values

using Axes = std::vector<std::size_t>;

/// The placements of the tensor argument of this name, which must be given.
const Placements& placements_of_input(const LocalCall& call, std::string_view argument);

/// The axes of more than one rank that shard `dim`, or that shard another dimension than `dim`.
Axes axes_that_divide(const LocalCall& call, const Placements& placements, std::int64_t dim);
Axes axes_that_divide_others(const LocalCall& call, const Placements& placements, std::int64_t dim);

/// The rows of dimension `dim` of a tensor argument that this rank has.
Part part_of_input(const LocalCall& call, std::string_view argument, std::int64_t dim);

/// Whether this rank is the first along each axis on which a value with these placements is partial. Only that rank
/// adds a term that must be added once.
bool adds_once(const LocalCall& call, const Placements& placements);

/// Reduces `value` in place over the ranks along each axis in turn.
void reduce_over(const LocalCall& call, const Axes& axes, at::Tensor& value, ReduceOp op = ReduceOp::sum);

/// The values of the ranks along an axis, stacked along a new dimension 0.
at::Tensor gather_along(const LocalCall& call, std::size_t axis, const at::Tensor& value);

// For reductions:

/// The dimensions that the call reduces, counted from 0; all dimensions if none are given.
std::vector<std::int64_t> dims_or_all(const LocalCall& call);

/// The axes of more than one rank that shard a reduced dimension: partial results must be combined along them.
Axes axes_to_join(const LocalCall& call);

}  // namespace lockstep::global
