// The optimizer of a run: whole on every rank, or in shards.
#pragma once

#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/parameter_shards.h>
#include <lockstep/train/optimizer.h>

#include <memory>
#include <optional>

namespace lockstep::train {

class Updater {
 public:
  /// A collective when `sharded`, as are `step` and `state` then.
  Updater(const OptimizerConfig& config, const DataParallel& parallel, bool sharded);
  ~Updater();

  /// Updates the parameters with their gradients, which are first scaled down to a common norm of `clip_norm` if it is
  /// above 0 and theirs is larger.
  void step(double lr, double clip_norm);

  /// As optimizer_state, with or without shards: a run may go on with another number of ranks, or without shards.
  NamedTensors state() const;
  /// Error(data) as load_optimizer_state.
  void load(const NamedTensors& state);

 private:
  NamedParameters parameters_;
  std::optional<ParameterShards> shards_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace lockstep::train
