// Tensors that are stored one after the other in one piece of memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::mirrored {

/// A tensor of its own over the part of `flat` that begins at `offset`, with the sizes of `like` and, where `like` is
/// dense, its strides (the layout that autograd wants for gradients). Not a view in autograd's eyes, because optimizers
/// detach gradients in place, which views refuse.
at::Tensor tensor_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like);

/// The tensor with the layout in memory that `like`, of the same sizes, has; the same where it has that.
at::Tensor laid_out_as(const at::Tensor& tensor, const at::Tensor& like);

/// `elements` of the memory of a dense `tensor`, from its `begin`-th in the order of memory, as a tensor of one
/// dimension.
at::Tensor stretch_of(const at::Tensor& tensor, std::int64_t begin, std::int64_t elements);

}  // namespace lockstep::mirrored
