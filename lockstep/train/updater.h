// The optimizer of a run: whole on every rank, or sharded.
#pragma once

#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/parameter_shards.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/shard_backup.h>

#include <memory>
#include <optional>

namespace lockstep::train {

class Updater {
 public:
  /// A collective when `sharded`, as are `step` and `state` then. `recovers`: shards have backups.
  Updater(const OptimizerConfig& config, const DataParallel& parallel, bool sharded, bool recovers);
  ~Updater();

  /// Updates the parameters with their gradients, which are first scaled down to a common norm of `clip_norm` if it is
  /// above 0 and theirs is larger.
  void step(double lr, double clip_norm);

  /// As optimizer_state, with or without shards: a run may continue with another number of ranks, or without shards.
  NamedTensors state() const;
  /// Error(data) as load_optimizer_state.
  void load(const NamedTensors& state);

  /// With shards that have backups, this rank's part of the state; nullopt without. Takes it: nothing is
  /// updated any more then. Not a collective.
  std::optional<ShardParts> take_shard_parts();

 private:
  NamedParameters parameters_;
  std::optional<ParameterShards> shards_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<ShardBackup> backup_;
};

}  // namespace lockstep::train
