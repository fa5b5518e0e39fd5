#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/rejoin.h>
#include <lockstep/data/loader.h>
#include <lockstep/train/forward.h>
#include <lockstep/train/mirrored_run.h>
#include <lockstep/train/reports.h>

#include <torch/torch.h>

#include <chrono>

namespace lockstep::train {
namespace {

DataParallelOptions parallel_options(const ParallelConfig& config) {
  DataParallelOptions options;
  options.gradients_mean = config.gradients_mean;
  options.bucket_bytes = bytes_of_mib(config.bucket_mb);
  options.first_bucket_bytes = bytes_of_mib(config.first_bucket_mb);
  options.buffers = config.buffers == "local" ? BufferPolicy::local : BufferPolicy::broadcast;
  options.sync_batch_norm = config.sync_batch_norm;
  return options;
}

bool has_own_buffers(const RunConfig& config, const models::Classifier& model) {
  return config.parallel.buffers == "local" && !model.module->buffers().empty();
}

/// Accuracy and loss over a whole split. Runs the model in evaluation mode over this rank's share and adds up all
/// ranks' counts (a collective). With a sampler that gives every picture to one rank the result is exact, and the same
/// on every rank and for every number of ranks up to the rounding of the loss's sum. `epoch` and `step` of the result
/// are left at 0. The model is in training mode afterwards.
Evaluation evaluate(const models::Classifier& model, data::Loader& loader, const Group& group,
                    const ForwardOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const torch::NoGradGuard no_grad;
  model.module->eval();
  std::int64_t correct = 0, pictures = 0;
  double loss = 0;
  loader.start(0);
  while (const auto batch = loader.next()) {
    if (batch->count == 0) continue;
    const auto result = forward(model, batch, options);
    correct += (result.logits.argmax(1) == result.labels).sum().item<std::int64_t>();
    loss += result.loss.item<double>() * static_cast<double>(batch->count);
    pictures += batch->count;
  }
  model.module->train();
  // Doubles hold counts of up to 2^53 exactly.
  auto sums = torch::tensor({static_cast<double>(correct), static_cast<double>(pictures), loss}, torch::kDouble);
  all_reduce(sums, group);
  const auto* total = sums.data_ptr<double>();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {.accuracy = total[0] / total[1],
          .loss = total[2] / total[1],
          .samples = static_cast<std::int64_t>(total[1]),
          .seconds = took.count()};
}

}  // namespace

MirroredRun::MirroredRun(const RunConfig& config, const models::Classifier& model, const Group& group,
                         const ForwardOptions& options)
    : model_(model),
      options_(options),
      parallel_(model.module, group, parallel_options(config.parallel)),
      updater_(config.optimizer, parallel_, config.parallel.shard_optimizer, can_rejoin(group)),
      step_(model_, parallel_, updater_,
            {.forward = options_,
             .clip_norm = config.train.clip_norm,
             .forwards_nothing = config.parallel.sync_batch_norm}),
      is_one_batch_(config.parallel.sync_batch_norm),
      keeps_whole_state_(!config.parallel.shard_optimizer && !has_own_buffers(config, model)) {
  if (can_rejoin(group) && group.size() > 1 && has_own_buffers(config, model)) ring_.emplace(model.module, group);
}

StepLosses MirroredRun::step(const StepRequest& request, data::Loader& loader) {
  if (is_one_batch_) {
    StepRequest of_all = request;
    of_all.want_global_loss = true;
    const auto loss = step_.run(of_all, loader).global;
    return {.local = loss, .global = request.want_global_loss ? loss : std::nullopt};
  }
  if (!ring_) return step_.run(request, loader);
  StepRequest watched = request;
  watched.forwarded = [this] { ring_->start(); };
  watched.leaving = [this] { ring_->finish(); };
  ring_->begin_step();
  const auto losses = step_.run(watched, loader);
  ring_->end_step();
  return losses;
}

void MirroredRun::synchronize_buffers() {
  parallel_.synchronize_buffers();
  if (ring_) ring_->synchronized();
}

void MirroredRun::load_own(const NamedTensors& state) {
  if (ring_) ring_->load(state);
}

Evaluation MirroredRun::evaluate(data::Loader& loader) {
  synchronize_buffers();
  return train::evaluate(model_, loader, parallel_.group(), options_);
}

std::optional<ShardParts> MirroredRun::take_shard_parts() {
  auto parts = updater_.take_shard_parts();
  if (!ring_) return parts;
  if (!parts) parts.emplace();
  ring_->add_to(*parts);
  return parts;
}

NamedTensors MirroredRun::model_state() {
  synchronize_buffers();
  return module_state(*model_.module);
}

}  // namespace lockstep::train
