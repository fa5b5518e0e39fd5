// NCCL's names of dtypes and reductions.
#pragma once

#include <lockstep/comm/collectives.h>

#include <c10/core/ScalarType.h>

#include <nccl.h>

#include <optional>

namespace lockstep::detail::nccl {

/// How NCCL reduces a dtype.
struct Reduced {
  ncclDataType_t type;
  ncclRedOp_t op;
};

/// nullopt for dtypes that NCCL lacks. The values of bool are 0 and 1, so "any" is the maximum.
inline std::optional<Reduced> reduced(at::ScalarType dtype, ReduceOp op) {
  const auto redop = [op] {
    switch (op) {
      case ReduceOp::sum: return ncclSum;
      case ReduceOp::mean: return ncclAvg;
      case ReduceOp::min: return ncclMin;
      case ReduceOp::max: return ncclMax;
      case ReduceOp::product: return ncclProd;
    }
    return ncclSum;
  }();
  switch (dtype) {
    case at::kFloat: return Reduced{ncclFloat32, redop};
    case at::kDouble: return Reduced{ncclFloat64, redop};
    case at::kHalf: return Reduced{ncclFloat16, redop};
    case at::kBFloat16: return Reduced{ncclBfloat16, redop};
    case at::kByte: return Reduced{ncclUint8, redop};
    case at::kChar: return Reduced{ncclInt8, redop};
    case at::kInt: return Reduced{ncclInt32, redop};
    case at::kLong: return Reduced{ncclInt64, redop};
    case at::kBool: {
      const bool any = op == ReduceOp::sum || op == ReduceOp::max;
      return Reduced{ncclUint8, any ? ncclMax : ncclMin};
    }
    default: return std::nullopt;
  }
}

/// The dtype in which NCCL reduces a dtype that it lacks, with the same results; nullopt where there is none.
inline std::optional<at::ScalarType> stand_in(at::ScalarType dtype) {
  return dtype == at::kShort ? std::optional(at::kInt) : std::nullopt;
}

}  // namespace lockstep::detail::nccl
