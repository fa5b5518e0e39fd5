// One parameter's `.grad()` on this rank, and its state in a round. No communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep::mirrored {

/// `place` below is the parameter's place in its bucket, where `.grad()` lies from the first round on unless the
/// program replaced or removed it.
struct GradientSlot {
  std::string name;
  at::Tensor parameter;
  bool used = false;         ///< got a gradient since the last round, in this one or without synchronization
  bool arrived = false;      ///< autograd has been here in this round
  bool settled = false;      ///< its place holds what this rank sends
  bool contributes = false;  ///< what it sends has a gradient in it
  bool reduced = false;      ///< `.grad()` is the ranks' result, and nothing was added to it since
  at::Tensor kept;           ///< copy of a `.grad()` that is to be restored if no rank has a gradient
};

/// Forgets the last round.
void start_round(GradientSlot& slot);

/// Where gradients are summed over `ranks` ranks and one is about to be added to `.grad()`: an old sum G must enter the
/// next sum once, not once for each rank, so each rank keeps G / ranks of it. (A mean needs no such care: the mean of
/// equal G is G.)
void share_old_sum(GradientSlot& slot, int ranks);

/// Makes `place` hold what this rank sends, and `.grad()` lie there if it has a gradient to send. `shares` is by how
/// many an old result is divided: the ranks where gradients are summed, else 1. Error(unsupported) naming the parameter
/// when the gradient is sparse.
void settle(GradientSlot& slot, const at::Tensor& place, int shares);

/// After `place` was reduced: `.grad()` is there, or what it was before when no rank had a gradient.
void take_result(GradientSlot& slot, const at::Tensor& place, bool used_on_any_rank);

/// Gives `.grad()` memory of its own, because `place` is going to be overwritten.
void leave_place(GradientSlot& slot, const at::Tensor& place) noexcept;

}  // namespace lockstep::mirrored
