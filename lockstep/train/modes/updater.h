// The optimizer of a run: whole on every rank, or sharded.
#pragma once

#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/sharded_optimizer.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/modes/rank_copies.h>
#include <lockstep/train/optimizer.h>

#include <functional>
#include <memory>
#include <optional>

namespace lockstep::train {

enum class StepPoint;

class Updater {
 public:
  /// A collective when `sharded`, as are `step` and `add_state` then. `recovers`: shards have backups.
  Updater(const ResolvedRun& run, const DataParallel& parallel, bool sharded, bool recovers);
  ~Updater();

  /// Updates the parameters with their gradients, which are first scaled down to a common norm of `clip_norm` if it is
  /// above 0 and theirs is larger. `at` is called around the update itself, if there is one.
  void step(double lr, double clip_norm, const std::function<void(StepPoint)>& at = {});

  /// For updates without step(): the optimizer of all parameters, if there are no shards, and the learning rate of its
  /// next update.
  torch::optim::Optimizer& whole_optimizer() { return *optimizer_; }
  void take_rate(double lr);

  /// Adds this state, named as in saved_checkpoint.h; with shards, each rank adds its part.
  void add_state(SavedState& saved) const;
  /// Loads a state that was saved with shards or without, by any number of ranks: `outline` describes its tensors,
  /// without "optimizer.". Each rank reads its parts. The module must have its parameters already. Error(data) as
  /// load_optimizer_state.
  void load(StateSource& source, const NamedTensors& outline);

  /// The same as optimizer_state; empty with shards.
  NamedTensors state() const;

  /// With shards that have backups, this rank's part of the state; nullopt without. Moves the state out: no update may
  /// follow. Not a collective.
  std::optional<KeptParts> take_parts();

 private:
  NamedParameters parameters_;
  std::optional<ParameterShards> shards_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<ShardBackup> backup_;
};

}  // namespace lockstep::train
