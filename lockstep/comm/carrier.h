// Lets an engine that knows few dtypes and no mean reduce all of them.
#pragma once

#include <lockstep/comm/collectives.h>

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep::detail {

/// Tells whether an engine reduces a dtype itself.
using Native = std::function<bool(at::ScalarType)>;

/// The dtype in which an engine reduces `dtype`: itself where native, float32 for float16 and bfloat16 (also where
/// native, for exactness), int32 for int16, uint8 for bool. Error(unsupported) for what is left.
at::ScalarType carrier_dtype(at::ScalarType dtype, const Native& native);

/// The operation the engine runs: sum for mean; for bool max and min in place of sum and product, which would
/// overflow.
ReduceOp carrier_op(at::ScalarType dtype, ReduceOp op);

/// Turns the engine's result in `carried` into the call's in `result`: the division of a mean, and the dtype.
void deliver(at::Tensor& result, at::Tensor carried, ReduceOp op, int size);

/// The bytes of a contiguous tensor, for operations that only move them: any dtype is uint8 then.
at::Tensor as_bytes(const at::Tensor& tensor);

}  // namespace lockstep::detail
