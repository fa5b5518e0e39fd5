// The tensors of a module that must be equal on all ranks: their list, its comparison between ranks, and their
// broadcast from rank 0.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::mirrored {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The parameters and buffers of a module, in the module's order. A tensor that two modules share appears once, under
/// its first name.
struct Replica {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
};

/// Collects the replica. Error(unsupported) naming a parameter or buffer that is sparse or expanded, or a trainable
/// parameter that is complex.
Replica replica_of(const torch::nn::Module& module);

/// The replica as text to compare between ranks: `options`, then one line per tensor with name, dtype, sizes, strides,
/// requires_grad.
std::string describe(const Replica& replica, std::string_view options);

/// Compares the ranks' descriptions. A collective. Error(mismatch) on every rank naming the first parameter that
/// differs and the ranks on which it does.
void require_same(const std::string& description, const Group& group);

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
