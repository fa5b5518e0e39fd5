// Direct versions of tensor operations without the cost of a libtorch call (a microsecond or two each), for the small
// tensors of a small network's step.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::mirrored {

/// `to.copy_(from)`; small dense tensors of one layout are copied byte by byte.
void copy_into(const at::Tensor& to, const at::Tensor& from);

/// Sets all elements of a contiguous floating tensor.
void set_all(const at::Tensor& tensor, double value);

/// Its element at `index`.
double value_at(const at::Tensor& tensor, std::int64_t index);
void set_value(const at::Tensor& tensor, std::int64_t index, double value);

}  // namespace lockstep::mirrored
