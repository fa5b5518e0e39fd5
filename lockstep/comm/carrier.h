// The intermediate dtype and operator of a reduction that runs through several engines in turn.
#pragma once

#include <lockstep/comm/collectives.h>

#include <ATen/core/Tensor.h>

namespace lockstep::detail {

/// The dtype of sums that are not complete: float32 for float16 and bfloat16, which are rounded once, at the end.
at::ScalarType carrier_dtype(at::ScalarType dtype);

/// The operator that the engines run: sum for mean, which is divided once, at the end.
ReduceOp carrier_op(ReduceOp op);

/// Turns the engine's result in `carried` into the call's in `result`: the division of a mean, and the dtype.
void deliver(at::Tensor& result, at::Tensor carried, ReduceOp op, int size);

/// The bytes of a contiguous tensor, for operations that only move them: any dtype is uint8 then.
at::Tensor as_bytes(const at::Tensor& tensor);

}  // namespace lockstep::detail
