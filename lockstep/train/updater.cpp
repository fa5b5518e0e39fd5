#include <lockstep/train/clip_gradients.h>
#include <lockstep/train/sharded_state.h>
#include <lockstep/train/updater.h>

#include <torch/torch.h>

namespace lockstep::train {
Updater::Updater(const OptimizerConfig& config, const DataParallel& parallel, bool sharded)
    : parameters_(trainable_parameters(parallel.module())) {
  if (sharded) shards_.emplace(parallel);
  optimizer_ = make_optimizer(config, sharded ? shards_->pieces() : tensors_of(parameters_));
}

Updater::~Updater() = default;

void Updater::step(double lr, double clip_norm) {
  if (clip_norm > 0) clip_gradients(tensors_of(parameters_), clip_norm);
  set_learning_rate(*optimizer_, lr);
  if (shards_) shards_->take_gradients();
  optimizer_->step();
  if (shards_) shards_->share();
}

NamedTensors Updater::state() const {
  return shards_ ? sharded_optimizer_state(*optimizer_, *shards_, parameters_)
                 : optimizer_state(*optimizer_, parameters_);
}

void Updater::load(const NamedTensors& state) {
  if (shards_) {
    load_sharded_optimizer_state(*optimizer_, *shards_, parameters_, state);
  } else {
    load_optimizer_state(*optimizer_, parameters_, state);
  }
}

}  // namespace lockstep::train
