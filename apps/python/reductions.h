// The reduction operators of torch.distributed on a lockstep::Group.
#pragma once

#include <apps/python/operation_queue.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>

namespace lockstep::python {

/// The name of an operator, for messages: "SUM", "BAND".
std::string name_of(const c10d::ReduceOp& op);

/// Throws c10::ValueError naming operator and dtype where the operator does not exist for the dtype: an average of
/// integers, a bitwise operator of floating numbers, a dtype that cannot be computed with.
void require_reducible(const at::Tensor& tensor, const c10d::ReduceOp& op, std::string_view call);

// AVG is Lockstep's mean. PREMUL_SUM multiplies first. The bitwise operators, which Lockstep does not have, gather all
// ranks' tensors.

void reduce_on_all(at::Tensor& tensor, const c10d::ReduceOp& op, const Group& group, Limit limit);

/// On the other ranks than `root`, `tensor` remains as it is.
void reduce_on_root(at::Tensor& tensor, const c10d::ReduceOp& op, int root, const Group& group, Limit limit);

/// `input` holds one slice for each rank, flat; this rank's slice of the result goes to `output`, flat.
void reduce_slices(at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op, const Group& group,
                   Limit limit);

/// The sum of all ranks' sparse tensors (COO) of one shape, with any numbers of values.
void sum_sparse_on_all(at::Tensor& tensor, const Group& group, Limit limit);

}  // namespace lockstep::python
