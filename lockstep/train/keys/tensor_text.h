// A tensor's dtype and sizes in messages.
#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include <string>

namespace lockstep::train {

/// "Float [8, 3, 32, 32]"
inline std::string dtype_and_sizes(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

}  // namespace lockstep::train
