// One parameter's `.grad()` on this rank, and its state in a round. No communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep::mirrored {

/// In the functions below, `place` is the parameter's place in its bucket, where `.grad()` is from the first round on,
/// unless the program replaced or removed it.
struct GradientSlot {
  std::string name;
  at::Tensor parameter;
  bool used = false;         ///< got a gradient since the last round, in this round or without synchronization
  bool arrived = false;      ///< autograd has processed the parameter in this round
  bool settled = false;      ///< its place has the value that this rank sends
  bool contributes = false;  ///< the value that is sent contains a gradient
  bool reduced = false;      ///< `.grad()` is the reduced result, and nothing was added to it since
  at::Tensor kept;           ///< copy of `.grad()`, restored if no rank has a gradient
};

/// Resets the state of the last round.
void start_round(GradientSlot& slot);

/// To be called before a gradient is added to `.grad()`, if gradients are summed over ranks: an old sum G must enter
/// the next sum once, not once for each rank, so each rank keeps G / ranks. (Not necessary for a mean: the mean of
/// equal G is G.)
void share_old_sum(GradientSlot& slot, int ranks);

/// Writes the value that this rank sends to `place`, and makes `.grad()` refer to it if there is a gradient to send. An
/// old result is divided by `shares`: the number of ranks if gradients are summed, else 1. Error(unsupported) naming
/// the parameter when the gradient is sparse.
void settle(GradientSlot& slot, const at::Tensor& place, int shares);

/// To be called after `place` was reduced: makes `.grad()` refer to `place`, or restores its old value if no rank had a
/// gradient.
void take_result(GradientSlot& slot, const at::Tensor& place, bool used_on_any_rank);

/// Gives `.grad()` memory of its own, because `place` will be overwritten.
void leave_place(GradientSlot& slot, const at::Tensor& place) noexcept;

}  // namespace lockstep::mirrored
