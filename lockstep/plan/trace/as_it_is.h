// Saving and restoring the content of a tensor object, for all handles to it.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::plan {

/// What `tensor` is now, whatever it becomes.
inline at::Tensor as_it_is(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(/*version_counter=*/0,
                                                                          /*allow_tensor_metadata_change=*/true));
}

/// Every handle to `tensor` sees what `other` is; its place in autograd stays.
inline void become(const at::Tensor& tensor, const at::Tensor& other) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
}

}  // namespace lockstep::plan
