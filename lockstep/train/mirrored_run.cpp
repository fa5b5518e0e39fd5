#include <lockstep/train/evaluate.h>
#include <lockstep/train/mirrored_run.h>

#include <torch/torch.h>

namespace lockstep::train {
namespace {

DataParallelOptions parallel_options(const ParallelConfig& config) {
  DataParallelOptions options;
  options.gradients_mean = config.gradients_mean;
  options.bucket_bytes = bytes_of_mib(config.bucket_mb);
  options.first_bucket_bytes = bytes_of_mib(config.first_bucket_mb);
  options.buffers = config.buffers == "local" ? BufferPolicy::local : BufferPolicy::broadcast;
  return options;
}

}  // namespace

MirroredRun::MirroredRun(const RunConfig& config, const models::Classifier& model, const Group& group,
                         const ForwardOptions& options)
    : model_(model),
      options_(options),
      parallel_(model.module, group, parallel_options(config.parallel)),
      updater_(config.optimizer, parallel_, config.parallel.shard_optimizer),
      step_(model_, parallel_, updater_, options_, config.train.clip_norm),
      keeps_whole_state_(!config.parallel.shard_optimizer &&
                         (config.parallel.buffers != "local" || model.module->buffers().empty())) {}

Evaluation MirroredRun::evaluate(data::Loader& loader) {
  parallel_.synchronize_buffers();
  return train::evaluate(model_, loader, parallel_.group(), options_);
}

NamedTensors MirroredRun::model_state() {
  parallel_.synchronize_buffers();
  return module_state(*model_.module);
}

}  // namespace lockstep::train
