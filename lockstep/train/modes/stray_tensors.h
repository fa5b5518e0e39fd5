// Tensors that a loss has gradients for, and that are no parameters of the model: nobody trains them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// In words for people, with their shapes; empty: there are none. Tensors whose first size is `samples` are taken for
/// inputs, whose gradients a loss may want. Error(invalid_argument) where the module has no parameters at all.
std::string describe_stray_tensors(const at::Tensor& loss, const torch::nn::Module& module, std::int64_t samples);

}  // namespace lockstep::train
