// Mixed precision as a scope.
#pragma once

namespace lockstep::train {

/// While it exists, matrix products and convolutions on the CPU (or CUDA) run in bfloat16; parameters stay float32.
/// Does nothing when `enabled` is false. Scopes do not nest. Only
/// forward passes belong inside: backward follows the dtypes that forward recorded.
class Bfloat16Autocast {
 public:
  Bfloat16Autocast(bool enabled, bool on_cuda);
  ~Bfloat16Autocast();
  Bfloat16Autocast(const Bfloat16Autocast&) = delete;
  Bfloat16Autocast& operator=(const Bfloat16Autocast&) = delete;

 private:
  bool enabled_;
  bool on_cuda_;
};

}  // namespace lockstep::train
