// With recovery and buffers that each rank has for itself, what keeps them when a rank dies: the next rank has a copy.
//
// What the forward of a step made of a rank's buffers goes to the next rank while backward runs, and has arrived there
// before that rank's last gradients leave. So once any rank has completed a step, which takes all gradients, the copies
// of that step are there.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/comm/work.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/shard_parts.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace lockstep::train {

/// The tensors of a whole state that hold each rank's buffers, as bytes one after the other.
std::string buffers_key(int rank);

class BufferRing {
 public:
  /// All ranks have the same buffers.
  BufferRing(std::shared_ptr<torch::nn::Module> module, const Group& group);

  /// Takes the buffers of this rank, and the copy of the other's, from a state that has them.
  void load(const NamedTensors& state);

  /// In a step: at its beginning, after the last forward, before the last gradients leave, and after the update.
  void begin_step();
  void start();
  void finish();
  void end_step();

  /// All ranks have taken rank 0's, between two steps.
  void synchronized();

  /// Adds the buffers to the parts of this rank.
  void add_to(ShardParts& parts) const;

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
