// The trust ratio of LAMB and LARS: the ratio of two norms.
#pragma once

#include <ATen/ATen.h>

namespace lockstep::train {

/// `ratio`, and 1 where one of the norms is 0. All have one element; nothing is read on the host.
inline at::Tensor ratio_or_1(const at::Tensor& ratio, const at::Tensor& norm, const at::Tensor& other) {
  return at::where((norm > 0).logical_and(other > 0), ratio, at::ones_like(ratio));
}

}  // namespace lockstep::train
