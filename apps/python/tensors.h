// The tensors of one operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace lockstep::python {

/// What an operation reads, and what it writes. A tensor that is changed in place is an output alone.
struct CallTensors {
  std::vector<at::Tensor> inputs{};
  std::vector<at::Tensor> outputs{};
};

}  // namespace lockstep::python
