#include <lockstep/base/error.h>
#include <lockstep/mirrored/gradient_slot.h>
#include <lockstep/mirrored/small_tensors.h>

#include <torch/torch.h>

#include <exception>
#include <utility>

namespace lockstep::mirrored {
namespace {

bool lies_in(const at::Tensor& place, const at::Tensor& gradient) {
  return gradient.is_same(place) || (gradient.layout() == at::kStrided && gradient.data_ptr() == place.data_ptr() &&
                                     gradient.sizes() == place.sizes() && gradient.strides() == place.strides());
}

}  // namespace

void start_round(GradientSlot& slot) {
  slot.arrived = slot.settled = slot.contributes = false;
  slot.kept.reset();
}

void share_old_sum(GradientSlot& slot, int ranks) {
  if (!std::exchange(slot.reduced, false)) return;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined()) return;
  torch::NoGradGuard no_grad;
  gradient.div_(ranks);
}

void settle(GradientSlot& slot, const at::Tensor& place, int shares) {
  torch::NoGradGuard no_grad;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  slot.settled = true;
  slot.contributes = slot.used && gradient.defined();
  if (!gradient.defined()) {
    place.zero_();
    return;
  }
  if (gradient.layout() != at::kStrided) {
    fail(ErrorKind::unsupported, "data_parallel",
         "parameter \"{}\" got a sparse gradient, which cannot be reduced with the dense ones; use the dense form "
         "(EmbeddingOptions::sparse(false), for one)",
         slot.name);
  }
  const bool in_place = lies_in(place, gradient);
  if (!in_place) copy_into(place, gradient);
  if (slot.contributes) {
    if (!in_place) gradient = place;
    return;
  }
  // If no rank has a gradient, `.grad()` must keep its value although its place is reduced.
  if (in_place) slot.kept = gradient.clone();
  if (slot.reduced && shares != 1) place.div_(shares);
}

void take_result(GradientSlot& slot, const at::Tensor& place, bool used_on_any_rank) {
  if (slot.contributes || used_on_any_rank) {
    at::Tensor& gradient = slot.parameter.mutable_grad();
    if (!gradient.defined() || !lies_in(place, gradient)) gradient = place;
    slot.reduced = true;
  } else if (slot.kept.defined()) {
    torch::NoGradGuard no_grad;
    place.copy_(slot.kept);
  }
  slot.kept.reset();
  slot.used = false;
}

void leave_place(GradientSlot& slot, const at::Tensor& place) noexcept {
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined() || !lies_in(place, gradient)) return;
  try {
    torch::NoGradGuard no_grad;
    gradient = gradient.clone();
  } catch (const std::exception&) {
    gradient.reset();  // out of memory for the copy; the values are undefined anyway
  }
}

}  // namespace lockstep::mirrored
