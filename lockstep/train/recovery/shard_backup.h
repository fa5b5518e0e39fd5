// Backups of a sharded optimizer's state for recovery: each rank also keeps the shard of the previous rank.
//
// Each rank updates two shards: its own, and a copy of the previous rank's shard. All ranks have all gradients, so this
// needs no communication, and both get the same result, bit for bit. The values from before the update are kept until
// all ranks have shared their shards: a step that a rank did not share before it was lost is undone.
#pragma once

#include <lockstep/state/kept_state.h>
#include <lockstep/train/config.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/recovery/shard_state.h>

#include <memory>
#include <vector>

namespace lockstep::train {

class ShardBackup {
 public:
  /// `own` updates the pieces of `shards`; `parameters` are those of `shards`, with names. All outlive this. In a group
  /// of one rank there is no backup.
  ShardBackup(const OptimizerConfig& config, const ParameterShards& shards, const torch::optim::Optimizer& own,
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
