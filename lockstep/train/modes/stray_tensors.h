// Tensors for which a loss has gradients, but which are not parameters of the model, so that they are not trained.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// A description for users, with shapes; empty: there are none. Tensors whose first size is `samples` are treated as
/// inputs, whose gradients a loss may use. Error(invalid_argument) if the module has no parameters.
std::string describe_stray_tensors(const at::Tensor& loss, const torch::nn::Module& module, std::int64_t samples);

}  // namespace lockstep::train
