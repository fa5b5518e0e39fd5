// The data-parallel run: a training step over DataParallel and Updater, with served tables, CUDA graph, buffer ring.
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/rejoin.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/sharded/all_or_none.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/evaluate.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/mirrored_run.h>
#include <lockstep/train/optimizer/freeze.h>
#include <lockstep/train/reports.h>
#include <lockstep/train/served/table_rules.h>

#include <torch/torch.h>

#include <utility>

namespace lockstep::train {
namespace {

/// Sparse gradients stay sparse where the optimizer takes them.
bool sends_rows(const RunConfig& config) {
  const auto& how = config.parallel.sparse_gradients;
  if (how != "auto") return how == "rows";
  return !config.parallel.shard_optimizer && takes_rows(config.optimizer);
}

DataParallelOptions parallel_options(const RunConfig& run, const Model& model) {
  const auto& config = run.parallel;
  DataParallelOptions options;
  options.gradients_mean = config.gradients_mean;
  options.bucket_bytes = bytes_of_mib(config.bucket_mb);
  options.first_bucket_bytes = bytes_of_mib(config.first_bucket_mb);
  options.buffers = config.buffers == "local" ? BufferPolicy::local : BufferPolicy::broadcast;
  options.sync_batch_norm = config.sync_batch_norm;
  options.sparse_gradients = sends_rows(run) ? SparseGradients::rows : SparseGradients::dense;
  for (const auto& [name, parameter] : served_parameters(config, *model.module)) options.ignored.push_back(name);
  return options;
}

ForwardOptions with_sums(ForwardOptions options, const Group& group) {
  if (group.size() > 1) {
    options.add_over_ranks = [group](const at::Tensor& own) {
      auto all = own.clone();
      all_reduce(all, group);
      return all;
    };
  }
  return options;
}

bool has_own_buffers(const RunConfig& config, const Model& model) {
  return config.parallel.buffers == "local" && !model.module->buffers().empty();
}

/// Lets the ring exchange buffers during backward.
void watch_step(StepRequest& request, BufferRing& ring) {
  ring.begin_step();
  request.watches_sending = true;
  request.at = [&ring, next = request.at](StepPoint point) {
    if (point == StepPoint::last_forward) ring.start();
    // The second, if the parameter whose gradient is watched was not used.
    if (point == StepPoint::sending || point == StepPoint::reduced) ring.finish();
    if (next) next(point);
  };
}

std::optional<ServedTables> served(const RunConfig& config, const Model& model, std::optional<TablePlace> place) {
  if (!place) return std::nullopt;
  return ServedTables(config.parallel, *model.module, std::move(*place));
}

}  // namespace

MirroredRun::MirroredRun(const RunConfig& config, const Model& model, const Group& group, const ForwardOptions& options,
                         std::optional<TablePlace> tables)
    : model_(model),
      options_(with_sums(options, group)),
      parallel_(model.module, group, parallel_options(config, model)),
      tables_(served(config, model, std::move(tables))),
      updater_(optimizer_of_module(config.optimizer, *model.module), parallel_, config.parallel.shard_optimizer,
               can_rejoin(group)),
      step_(model_, parallel_, updater_,
            {.forward = options_,
             .clip_norm = config.train.clip_norm,
             .forwards_nothing = config.parallel.sync_batch_norm,
             .dense_gradients = !sends_rows(config),
             .alone = tables_ && most_ahead(config.parallel.server),
             .update_elsewhere = tables_ ? [this](double lr, double scale) { tables_->update(lr, scale); }
                                         : std::function<void(double, double)>()}),
      is_one_batch_(config.parallel.sync_batch_norm),
      keeps_whole_state_(!config.parallel.shard_optimizer && !has_own_buffers(config, model)) {
  if (config.train.cuda_graph) {
    why_not_recorded_ = group.size() > 1 ? "the run has several ranks" : why_not_recorded(config, *model.module);
    if (!why_not_recorded_) recorded_.emplace(model_, parallel_, updater_, options_);
  }
  if (can_rejoin(group) && group.size() > 1 && has_own_buffers(config, model)) ring_.emplace(model.module, group);
}

StepLosses MirroredRun::step(const StepRequest& request, samples::Batches& batches) {
  if (recorded_ && !recorded_->why_not()) return recorded_->run(request, batches);
  StepRequest own = request;
  if (is_one_batch_) own.want_global_loss = true;
  if (ring_) watch_step(own, *ring_);
  auto losses = take_step(step_, own, batches);
  if (ring_) ring_->end_step();
  if (is_one_batch_) losses.local = losses.global;
  return losses;
}

std::optional<std::string> MirroredRun::recording() const {
  if (recorded_ && recorded_->is_recorded()) return "steps are launched as a CUDA graph";
  const auto& why_not = recorded_ ? recorded_->why_not() : why_not_recorded_;
  if (!why_not) return std::nullopt;
  return "steps are not recorded as a CUDA graph (train.cuda_graph): " + *why_not;
}

// Called before all ranks use the weights: evaluations, saves, results.
void MirroredRun::synchronize() {
  if (tables_) tables_->refresh();
  parallel_.synchronize_buffers();
  if (ring_) ring_->synchronized();
}

Evaluation MirroredRun::evaluate(samples::Batches& batches, EvaluationPurpose purpose) {
  synchronize();
  // Each rank has a share of the samples; a rank without samples does not have the names of metrics.
  return train::evaluate(
      model_, batches, options_,
      {.sums = [this](const Sums& own) { return add_up(gather_texts(to_text(own), parallel_.group())); },
       .rows = [this](const Rows& own) { return gather_rows(own, parallel_.group()); }},
      purpose);
}

Prediction MirroredRun::predict(samples::Batch batch) { return train::predict(model_, std::move(batch), options_); }

std::optional<KeptParts> MirroredRun::take_parts() {
  auto parts = updater_.take_parts();
  if (!ring_) return parts;
  if (!parts) parts.emplace();
  ring_->add_to(*parts);
  return parts;
}

NamedTensors MirroredRun::model_state() {
  synchronize();
  return module_state(*model_.module);
}

std::vector<RemoteTensor> MirroredRun::distant_tensors() {
  return tables_ ? tables_->tensors() : std::vector<RemoteTensor>();
}

SavedState MirroredRun::with_distant(SavedState state) {
  return tables_ ? tables_->saved(std::move(state.tensors)) : std::move(state);
}

void MirroredRun::finish(std::optional<int> ended_by) {
  if (tables_) tables_->finish(ended_by);
}

SavedState MirroredRun::state_to_save() {
  const auto& group = parallel_.group();
  SavedState state{.group = group, .mesh = {.sizes = {group.size()}, .names = {"data"}}, .tensors = {}, .in_parts = {}};
  add_part(state.tensors, "model", model_state());
  updater_.add_state(state);
  return state;
}

void MirroredRun::load_state(StateSource& source) {
  all_or_none(&parallel_.group(), problem_of([&] {
    const torch::NoGradGuard no_grad;
    require_module_state(*model_.module, source.outline("model"));
    for (const auto& [name, tensor] : module_state(*model_.module)) {
      auto values = tensor.detach();
      source.read("model." + name, whole_box(values.sizes().vec()), values);
    }
    updater_.load(source, without_frozen(source.outline("optimizer"), *model_.module));
    if (ring_) ring_->synchronized();
    if (ring_) ring_->load(source);
  }));
}

}  // namespace lockstep::train
