#include <lockstep/compat/libtorch.h>
#include <lockstep/train/autocast.h>

namespace lockstep::train {

Bfloat16Autocast::Bfloat16Autocast(bool enabled, bool on_cuda) : enabled_(enabled), on_cuda_(on_cuda) {
  if (!enabled_) return;
  compat::set_bfloat16_autocast(on_cuda_, true);
  at::autocast::increment_nesting();
}

Bfloat16Autocast::~Bfloat16Autocast() {
  if (!enabled_) return;
  // The cache holds the bfloat16 copies of this forward's weights; the next forward must not see them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  compat::set_bfloat16_autocast(on_cuda_, false);
}

}  // namespace lockstep::train
