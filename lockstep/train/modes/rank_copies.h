// Copies for recovery of what differs between ranks: the next rank keeps them in case a rank is lost. It gets the
// buffers, and repeats the updates of a shard of the optimizer.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/state/kept_state.h>
#include <lockstep/state/resume.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/resolved_run.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace lockstep::train {

/// The copies of buffers. A rank's buffers after the forward of a step are sent to the next rank while backward runs,
/// and have arrived there before that rank's last gradients are sent. So once any rank has completed a step, which
/// needs all gradients, the copies of that step exist.
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

/// The tensors that such parts of all ranks make up, without values.
NamedTensors divided_tensors(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters);

/// The boxes of a parameter that make up a stretch of its memory, with their values in `run`, a one-dimensional tensor
/// of the stretch's elements. They share its memory.
std::vector<HeldPart> parts_of_run(const at::Tensor& run, const at::Tensor& parameter,
                                   const ParameterShards::Stretch& stretch);

/// The optimizer state of stretches, named by their numbers as of pieces, from a whole state; `outline` is of its
/// optimizer tensors, without "optimizer.", which fit the parameters.
NamedTensors read_stretches(StateSource& source, const NamedTensors& outline, const torch::optim::Optimizer& optimizer,
                            const NamedParameters& parameters, const std::vector<ParameterShards::Stretch>& stretches);

/// A backup of the state of a sharded optimizer. Each rank updates two shards: its own, and a copy of the previous
/// rank's shard. All ranks have all gradients, so this needs no communication, and both get the same result, bit for
/// bit. The values from before the update are kept until all ranks have shared their shards: a step that a rank did not
/// share before it was lost is undone.
class ShardBackup {
 public:
  /// `own` updates the pieces of `shards`; `parameters` are those of `shards`, with names. All outlive this. In a group
  /// of one rank there is no backup.
  ShardBackup(const ResolvedRun& run, const ParameterShards& shards, const torch::optim::Optimizer& own,
              const NamedParameters& parameters);
  ~ShardBackup();

  /// Calls around an update of this rank's shard: before it, while the pieces have their gradients (already clipped);
  /// after it; and when all ranks have shared their shards.
  void before_update();
  void update(double lr);
  void shared();

  /// Loads the previous rank's part of a whole state, whose parameters are in the module (see read_stretches).
  void load(StateSource& source, const NamedTensors& outline);

  /// The parts from before the update, moved, and copies of the rest. No update may follow.
  KeptParts take_parts();

 private:
  PartAndCopy now() const;
  PartAndCopy named(const PartAndCopy& parts) const;

  const ParameterShards& shards_;
  const torch::optim::Optimizer& own_;
  const NamedParameters& parameters_;
  std::vector<ParameterShards::Stretch> stretches_;  ///< of the previous rank
  std::vector<ParameterShards::Stretch> own_stretches_;
  std::vector<at::Tensor> pieces_;  ///< a copy of its shard
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  PartAndCopy before_;    ///< the last update
  bool updated_ = false;  ///< updated, and not shared yet
};

}  // namespace lockstep::train
