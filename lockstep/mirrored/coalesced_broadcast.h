// The broadcast of many tensors from rank 0 in one collective.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/comm/work.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::mirrored {

/// Packs dense tensors of any dtype and strides, the same on all ranks, into one piece of memory that the group can
/// send without another copy. Keeps handles, so that tensors changed in place are sent with their new values.
class CoalescedBroadcast {
 public:
  /// A collective.
  CoalescedBroadcast(std::vector<at::Tensor> tensors, const Group& group);

  /// Launches the broadcast of what rank 0's tensors hold now; `check` as for other collectives of the group.
  void start(bool check = true);
  /// Waits for it; afterwards all ranks' tensors equal rank 0's.
  void finish();

 private:
  Group group_;
  std::vector<at::Tensor> tensors_;
  at::Tensor bytes_;                ///< [total] uint8
  std::vector<at::Tensor> packed_;  ///< a view of bytes_ for each tensor
  Work work_;
};

/// The same once, for any amount of tensors, in pieces of bounded memory.
void broadcast_all(const std::vector<at::Tensor>& tensors, const Group& group);

}  // namespace lockstep::mirrored
