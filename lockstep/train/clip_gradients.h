// Gradient clipping by norm, without looking at the norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::train {

/// Scales the gradients of `parameters` down so that the 2-norm of all of them together is at most `most`: the numbers
/// of torch::nn::utils::clip_grad_norm_(), which also returns the norm, and so can neither be planned nor leave the
/// computation uninterrupted. Parameters without a gradient do not count. Global tensors: a collective.
void clip_gradients(const std::vector<at::Tensor>& parameters, double most);

}  // namespace lockstep::train
