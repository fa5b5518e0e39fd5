#include <lockstep/train/clip_gradients.h>
#include <lockstep/train/sharded_state.h>
#include <lockstep/train/updater.h>

#include <torch/torch.h>

namespace lockstep::train {
Updater::Updater(const OptimizerConfig& config, const DataParallel& parallel, bool sharded, bool recovers)
    : parameters_(trainable_parameters(parallel.module())) {
  if (sharded) shards_.emplace(parallel);
  optimizer_ = make_optimizer(config, sharded ? shards_->pieces() : tensors_of(parameters_));
  if (sharded && recovers && parallel.group().size() > 1) backup_.emplace(config, *shards_, *optimizer_, parameters_);
}

Updater::~Updater() = default;

void Updater::step(double lr, double clip_norm) {
  if (clip_norm > 0) clip_gradients(tensors_of(parameters_), clip_norm);
  set_learning_rate(*optimizer_, lr);
  if (shards_) shards_->take_gradients();
  if (backup_) backup_->before_update();
  optimizer_->step();
  if (backup_) backup_->update(lr);
  if (shards_) shards_->share();
  if (backup_) backup_->shared();
}

std::optional<ShardParts> Updater::take_shard_parts() {
  return backup_ ? std::optional(backup_->take_parts()) : std::nullopt;
}

NamedTensors Updater::state() const {
  return shards_ ? sharded_optimizer_state(*optimizer_, *shards_, parameters_)
                 : optimizer_state(*optimizer_, parameters_);
}

void Updater::load(const NamedTensors& state) {
  if (shards_) {
    load_sharded_optimizer_state(*optimizer_, *shards_, parameters_, state);
    if (backup_) backup_->load(state);
  } else {
    load_optimizer_state(*optimizer_, parameters_, state);
  }
}

}  // namespace lockstep::train
