// The part that backends share whose engine only moves bytes: every reduction is one call of `combine`.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/network_reduction.h>

namespace lockstep::detail {

class NetworkBackend : public Backend {
 public:
  Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call) override {
    return combine(ResultOf::all_reduce, tensor, tensor, one_each(size_), 0, op, call);
  }

  Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call) override {
    return combine(ResultOf::reduce, rank_ == root ? tensor : at::Tensor(), tensor, one_each(size_), root, op, call);
  }

  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call) override {
    return combine(ResultOf::reduce_scatter, output, input, one_each(size_), 0, op, call);
  }

 protected:
  NetworkBackend(int rank, int size) : rank_(rank), size_(size) {}

  const int rank_;
  const int size_;
};

}  // namespace lockstep::detail
