// Reductions of tensors in terms of what knows no libtorch.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/network_reduction.h>
#include <lockstep/comm/shm/kernels.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::detail {

shm::DType dtype_of(const at::Tensor& tensor);

/// `input`: one row for each subtree that this rank brings (see NetworkCall). `output` may be undefined where none is
/// written. The tensors must outlive the call. Error(unsupported) for what cannot be reduced.
NetworkCall network_call(ResultOf kind, int rank, int root, std::vector<std::vector<RankRange>> brought,
                         const at::Tensor& input, const at::Tensor& output, ReduceOp op);

}  // namespace lockstep::detail
