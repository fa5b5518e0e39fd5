// CallTensors as one-dimensional contiguous memory, which is all that ranks exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::python {

/// The values of `tensor`: its own memory where that is contiguous, else a copy. Dtypes that Lockstep does not know
/// (for example float8) become bytes.
at::Tensor flat(const at::Tensor& tensor);

/// The memory in which an operation writes the values for `tensor`: `flat(tensor)`, and at the end store().
class FlatOutput {
 public:
  explicit FlatOutput(const at::Tensor& tensor) : tensor_(tensor), memory_(flat(tensor)) {}
  at::Tensor& memory() { return memory_; }
  void store();

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
};

/// The concatenation of all tensors.
at::Tensor joined(const std::vector<at::Tensor>& tensors);

/// The opposite: copies the slices of `memory` to the tensors, in their order.
void store_slices(const at::Tensor& memory, const std::vector<at::Tensor>& tensors);

/// All tensors have the same number of elements.
bool same_sizes(const std::vector<at::Tensor>& tensors);

}  // namespace lockstep::python
