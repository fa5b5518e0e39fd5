// Synchronized batch norms (SyncBatchNorm): normalization by the statistics of all ranks' pictures.
#pragma once

#include <lockstep/comm/group.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::mirrored {

/// While it exists, every torch::nn::BatchNorm1d, 2d and 3d of a module normalizes in training as one process with all
/// ranks' pictures would, forward and backward, and updates its running statistics equally on all ranks. Every rank
/// must call the module's forward and backward equally often, possibly with an empty batch. The collectives use a
/// separate group, so they do not wait for, or depend on the order of, gradient reductions.
///
/// Operators of libtorch get only tensors, so the running mean of a batch norm has a mark: a module can be synchronized
/// by one object at a time, and copies of the module are not synchronized. Not while another thread uses the module.
class SynchronizedBatchNorms {
 public:
  /// A collective; all ranks must have checked before that they have the same module. Error(unsupported) naming a batch
  /// norm that has no running statistics; Error(invalid_argument), on all ranks, where one is synchronized already.
  SynchronizedBatchNorms(const torch::nn::Module& module, const Group& group);
  ~SynchronizedBatchNorms();
  SynchronizedBatchNorms(const SynchronizedBatchNorms&) = delete;
  SynchronizedBatchNorms& operator=(const SynchronizedBatchNorms&) = delete;

  /// Whether `buffer` belongs to a synchronized batch norm, so that it stays equal on all ranks without being sent.
  bool covers(const at::Tensor& buffer) const;

 private:
  std::vector<at::Tensor> running_means_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace lockstep::mirrored
