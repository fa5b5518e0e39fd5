// Reductions of tensors through engines: the arguments for an engine, and the dtype and operator that several engines
// carry one after the other.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/comm/reduction/network_reduction.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::detail {

reduction::DType dtype_of(const at::Tensor& tensor);

/// `input`: one row for each subtree of this rank (see NetworkCall). `output` may be undefined where none is written.
/// The tensors must outlive the call. Error(unsupported) for a dtype or operator that cannot be reduced.
NetworkCall network_call(ResultOf kind, int rank, int root, std::vector<std::vector<RankRange>> brought,
                         const at::Tensor& input, const at::Tensor& output, ReduceOp op);

/// The dtype of incomplete sums: float32 for float16 and bfloat16, which are rounded once, at the end.
at::ScalarType carrier_dtype(at::ScalarType dtype);

/// The operator for the engines: sum for mean, which is divided once, at the end.
ReduceOp carrier_op(ReduceOp op);

/// Converts the engine's result in `carried` to the call's result in `result`: the division of a mean, and the dtype.
void deliver(at::Tensor& result, at::Tensor carried, ReduceOp op, int size);

/// The bytes of a contiguous tensor as uint8, for operations that only move them, whatever the dtype.
at::Tensor as_bytes(const at::Tensor& tensor);

}  // namespace lockstep::detail
