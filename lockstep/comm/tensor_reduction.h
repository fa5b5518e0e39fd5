// Reductions of tensors expressed in types without libtorch.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/network_reduction.h>
#include <lockstep/comm/shm/kernels.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::detail {

shm::DType dtype_of(const at::Tensor& tensor);

/// `input`: one row for each subtree of this rank (see NetworkCall). `output` may be undefined where none is
/// written. The tensors must outlive the call. Error(unsupported) for a dtype or operator that cannot be reduced.
NetworkCall network_call(ResultOf kind, int rank, int root, std::vector<std::vector<RankRange>> brought,
                         const at::Tensor& input, const at::Tensor& output, ReduceOp op);

}  // namespace lockstep::detail
