#include <lockstep/train/evaluate.h>
#include <lockstep/train/mirrored_run.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::train {
namespace {

DataParallelOptions parallel_options(const ParallelConfig& config) {
  constexpr double kMiB = 1024.0 * 1024.0;
  DataParallelOptions options;
  options.gradients_mean = config.gradients_mean;
  options.bucket_bytes = std::max<std::int64_t>(1, std::llround(config.bucket_mb * kMiB));
  options.first_bucket_bytes = std::max<std::int64_t>(1, std::llround(config.first_bucket_mb * kMiB));
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
      step_(model_, parallel_, updater_, options_, config.train.clip_norm) {}

Evaluation MirroredRun::evaluate(data::Loader& loader) {
  parallel_.synchronize_buffers();
  return train::evaluate(model_, loader, parallel_.group(), options_);
}

NamedTensors MirroredRun::model_state() {
  parallel_.synchronize_buffers();
  return module_state(*model_.module);
}

}  // namespace lockstep::train
