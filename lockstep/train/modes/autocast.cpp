// The mapping of model.autocast to a dtype, and a scope that sets libtorch's autocast for plain and global tensors.
#include <lockstep/base/error.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/global/dispatch/autocast.h>
#include <lockstep/train/modes/autocast.h>

namespace lockstep::train {

std::optional<at::ScalarType> autocast_dtype(std::string_view name, bool on_cuda) {
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "O2" || name == "O3") return on_cuda ? at::kHalf : at::kBFloat16;
  if (name != "float16") return std::nullopt;
  if (!on_cuda && !compat::kHalfOnCpu) {
    fail(ErrorKind::config, "model.autocast",
         "float16 needs CUDA with this libtorch, which has no products of float16 matrices on a CPU; use bfloat16, or "
         "O2, which is float16 on CUDA and bfloat16 on a CPU");
  }
  return at::kHalf;
}

Autocast::Autocast(std::optional<at::ScalarType> dtype, bool on_cuda) : dtype_(dtype), on_cuda_(on_cuda) {
  if (!dtype_) return;
  compat::set_autocast(*dtype_, on_cuda_, true);
  global::set_autocast(dtype_);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!dtype_) return;
  // The cache holds the 16-bit copies of this forward's weights; the next forward must not see them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  global::set_autocast(std::nullopt);
  compat::set_autocast(*dtype_, on_cuda_, false);
}

}  // namespace lockstep::train
