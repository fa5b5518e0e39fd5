// With recovery, what a rank keeps of an optimizer in shards so that no death takes a part of the state along.
//
// Each rank makes the updates of two shards: its own, and that of the rank before it, on a copy. All ranks have all
// gradients, so nothing travels for that, and both come to the same, bit for bit. And both are kept as they were before
// the update until all ranks have shared theirs: a step that some rank did not live to share is undone.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/shard_parts.h>

#include <memory>
#include <vector>

namespace lockstep::train {

class ShardBackup {
 public:
  /// `own` updates the pieces of `shards`; `parameters` are those of `shards`, with names. All outlive this. In a group
  /// of one there is nobody to keep anything for.
  ShardBackup(const OptimizerConfig& config, const ParameterShards& shards, const torch::optim::Optimizer& own,
              const NamedParameters& parameters);
  ~ShardBackup();

  /// Around an update of this rank's shard: before it, while the pieces have their gradients (but not before those were
  /// clipped); after it; and when all have shared theirs.
  void before_update();
  void update(double lr);
  void shared();

  /// Takes the other rank's part of a whole state, whose parameters are in the module.
  void load(const NamedTensors& state);

  /// What was before the update, moved, and copies of the rest. Nothing is updated any more then.
  ShardParts take_parts();

 private:
  Shards now() const;

  const ParameterShards& shards_;
  const torch::optim::Optimizer& own_;
  const NamedParameters& parameters_;
  std::vector<ParameterShards::Stretch> stretches_;  ///< of the rank before this one
  std::vector<at::Tensor> pieces_;                   ///< a copy of its shard
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  Shards before_;         ///< the last update
  bool updated_ = false;  ///< and not shared yet
};

}  // namespace lockstep::train
