// Mixed precision: the dtype for model.autocast, and a scope in which libtorch computes in it.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace lockstep::train {

/// The dtype of convolutions and matrix products for a value of model.autocast; nullopt: the dtype of the tensors.
/// Error(config) for float16 on a CPU where this libtorch has no such products.
std::optional<at::ScalarType> autocast_dtype(std::string_view name, bool on_cuda);

/// While it exists, matrix products and convolutions on the CPU (or CUDA) and of global tensors run in `dtype`;
/// parameters stay float32. Does nothing without a dtype. Scopes do not nest. Use it only around forward passes:
/// backward uses the dtypes that forward recorded.
class Autocast {
 public:
  Autocast(std::optional<at::ScalarType> dtype, bool on_cuda);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<at::ScalarType> dtype_;
  bool on_cuda_;
};

}  // namespace lockstep::train
