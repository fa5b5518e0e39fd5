// Saving and restoring the content of a tensor object, for all handles to it.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::plan {

/// A copy of the tensor object with the current content, which later changes of `tensor` do not affect.
inline at::Tensor snapshot(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(/*version_counter=*/0,
                                                                          /*allow_tensor_metadata_change=*/true));
}

/// Replaces the content of the tensor object by that of `other`, for all handles; its autograd state is kept.
inline void become(const at::Tensor& tensor, const at::Tensor& other) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
}

}  // namespace lockstep::plan
