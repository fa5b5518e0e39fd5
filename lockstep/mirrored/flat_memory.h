// Tensors that are stored consecutively in one flat buffer.
#pragma once

#include <lockstep/comm/group.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::mirrored {

/// Uninitialized memory with fast collectives of the group, on the device of `like`, or on the CPU if `like` is
/// undefined: from allocate() on the CPU, ordinary memory on a device. A collective. `dtype` as in allocate().
at::Tensor group_memory(const Group& group, std::int64_t elements, int dtype, const at::Tensor& like);

/// A tensor over the memory of `flat` from `offset` on, with the sizes of `like` and, if `like` is dense, its strides
/// (the layout that autograd expects of gradients). Not an autograd view, because optimizers detach gradients in place,
/// which is an error for views.
at::Tensor tensor_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like);

/// The tensor with the memory layout of `like`, which has the same sizes; `tensor` itself if it already has that
/// layout.
at::Tensor laid_out_as(const at::Tensor& tensor, const at::Tensor& like);

/// A one-dimensional tensor over `elements` elements of a dense `tensor`, from element `begin` on, in memory order.
at::Tensor stretch_of(const at::Tensor& tensor, std::int64_t begin, std::int64_t elements);

}  // namespace lockstep::mirrored
