// Copies of buffers that differ between ranks, for recovery: the next rank keeps a copy in case a rank is lost.
//
// A rank's buffers after the forward of a step are sent to the next rank while backward runs, and have arrived there
// before that rank's last gradients are sent. So once any rank has completed a step, which needs all gradients, the
// copies of that step exist.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/kept_state.h>
#include <lockstep/train/named_tensors.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::train {

class BufferRing {
 public:
  /// Requires that all ranks have the same buffers at construction.
  BufferRing(std::shared_ptr<torch::nn::Module> module, const Group& group);

  /// Loads the buffers of this rank, and the copy of the previous rank's buffers, from a state that has them.
  void load(StateSource& state);

  /// Calls in a step: at its beginning, after the last forward, before the last gradients are sent, and after the
  /// update.
  void begin_step();
  void start();
  void finish();
  void end_step();

  /// Call it when all ranks have taken rank 0's buffers, between two steps.
  void synchronized();

  /// Adds the buffers to the parts of this rank.
  void add_to(KeptParts& kept) const;

 private:
  at::Tensor pack() const;

  std::shared_ptr<torch::nn::Module> module_;
  Group group_;
  at::Tensor copy_;      ///< of the buffers of the rank before, after the last step
  at::Tensor before_;    ///< this rank's, when the step began
  at::Tensor sent_;      ///< this rank's, after the forward
  at::Tensor received_;  ///< of the rank before, after its forward
  Work sending_;
  Work receiving_;
  bool in_step_ = false;
  bool started_ = false;
  bool finished_ = false;
};

}  // namespace lockstep::train
