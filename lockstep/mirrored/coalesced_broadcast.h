// The broadcast of many tensors from rank 0 in one collective.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/comm/work.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::mirrored {

/// Packs dense tensors of any dtypes and strides, the same on all ranks, into one buffer that the group can send
/// without another copy. Keeps handles to the tensors, so values changed in place are sent.
class CoalescedBroadcast {
 public:
  /// A collective.
  CoalescedBroadcast(std::vector<at::Tensor> tensors, const Group& group);

  /// Starts the broadcast of the current values of rank 0's tensors; `check`: whether arguments are compared, as in
  /// other collectives of the group.
  void start(bool check = true);
  /// Waits for the broadcast; afterwards all ranks' tensors equal rank 0's.
  void finish();

 private:
  Group group_;
  std::vector<at::Tensor> tensors_;
  at::Tensor bytes_;                ///< [total] uint8
  std::vector<at::Tensor> packed_;  ///< a view of bytes_ for each tensor
  Work work_;
};

/// Broadcasts any number of tensors once, in chunks of bounded memory. A collective.
void broadcast_all(const std::vector<at::Tensor>& tensors, const Group& group);

}  // namespace lockstep::mirrored
