// Tensor operations without the overhead of a libtorch call (one or two microseconds each), for the small tensors of
// small networks.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::mirrored {

/// `to.copy_(from)`; small dense tensors with equal layouts are copied with memcpy.
void copy_into(const at::Tensor& to, const at::Tensor& from);

/// Sets all elements of a contiguous floating-point tensor.
void set_all(const at::Tensor& tensor, double value);

/// The element of such a tensor at `index`.
double value_at(const at::Tensor& tensor, std::int64_t index);
void set_value(const at::Tensor& tensor, std::int64_t index, double value);

}  // namespace lockstep::mirrored
