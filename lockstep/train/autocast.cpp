#include <lockstep/train/autocast.h>

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace lockstep::train {
namespace {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
void switch_autocast(bool on_cuda, bool on) {
  const auto device = on_cuda ? at::kCUDA : at::kCPU;
  if (on) at::autocast::set_autocast_dtype(device, at::kBFloat16);
  at::autocast::set_autocast_enabled(device, on);
}
#else
void switch_autocast(bool on_cuda, bool on) {
  if (on_cuda) {
    if (on) at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    at::autocast::set_enabled(on);
  } else {
    if (on) at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(on);
  }
}
#endif

}  // namespace

Bfloat16Autocast::Bfloat16Autocast(bool enabled, bool on_cuda) : enabled_(enabled), on_cuda_(on_cuda) {
  if (!enabled_) return;
  switch_autocast(on_cuda_, true);
  at::autocast::increment_nesting();
}

Bfloat16Autocast::~Bfloat16Autocast() {
  if (!enabled_) return;
  // The cache holds the bfloat16 copies of this forward's weights; the next forward must not see them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  switch_autocast(on_cuda_, false);
}

}  // namespace lockstep::train
