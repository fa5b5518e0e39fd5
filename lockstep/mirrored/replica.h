// The tensors of a module that must be equal on all ranks.
#pragma once

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

}  // namespace lockstep::mirrored
