// Synchronized batch norms: their statistics are those of all ranks' pictures.
#pragma once

#include <lockstep/comm/group.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::mirrored {

class MeetingTable;

/// While alive, every torch::nn::BatchNorm1d, 2d and 3d of a module normalizes in training as one process with all
/// ranks' pictures would, forward and backward, and updates its running statistics alike on all ranks. Every rank then
/// calls the module's forward and backward equally often, perhaps with no pictures. They meet in a group of their own,
/// so they neither wait for gradients on their way nor depend on when those leave.
///
/// libtorch calls operators with tensors alone, so a batch norm is known by its running mean: the same module may be
/// synchronized once at a time, and a copy of it is not.
class SynchronizedBatchNorms {
 public:
  /// A collective, after all ranks have made sure that they have the same module. Error(unsupported) naming a batch
  /// norm that is not on the CPU or has no running statistics; Error(invalid_argument), on all ranks, where one is
  /// synchronized already.
  SynchronizedBatchNorms(const torch::nn::Module& module, const Group& group);
  ~SynchronizedBatchNorms();
  SynchronizedBatchNorms(const SynchronizedBatchNorms&) = delete;
  SynchronizedBatchNorms& operator=(const SynchronizedBatchNorms&) = delete;

  /// Whether this is a buffer of theirs, which stays equal on all ranks without being sent.
  bool covers(const at::Tensor& buffer) const;

 private:
  std::shared_ptr<MeetingTable> table_;
  std::vector<at::Tensor> running_means_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace lockstep::mirrored
