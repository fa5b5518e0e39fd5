// The data-parallel run: every rank has a replica of the model, and gradients are averaged by DataParallel. The vote is
// under way while backward runs, and the reducer sends gradients meanwhile.
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/texts.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/rank_copies.h>
#include <lockstep/train/modes/updater.h>
#include <lockstep/train/optimizer/gradient_scaling.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/served/served_tables.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

// Called when the gradient of the model's first parameter is made, one of the last.
class BackwardHook {
 public:
  BackwardHook(torch::nn::Module& module, const std::function<void()>& call) {
    const auto parameters = module.parameters();
    const auto first =
        std::find_if(parameters.begin(), parameters.end(), [](const auto& p) { return p.requires_grad(); });
    if (first == parameters.end()) return;
    parameter_ = *first;
    hook_ = parameter_.register_hook([call](const at::Tensor&) { call(); });
  }
  BackwardHook(const BackwardHook&) = delete;
  BackwardHook& operator=(const BackwardHook&) = delete;
  ~BackwardHook() {
    if (parameter_.defined()) parameter_.remove_hook(hook_);
  }

 private:
  at::Tensor parameter_;
  unsigned hook_ = 0;
};

/// Sparse gradients stay sparse where the optimizer takes them.
bool sends_rows(const ResolvedRun& config) {
  const auto& how = config.parallel.sparse_gradients;
  if (how != "auto") return how == "rows";
  return !config.parallel.shard_optimizer && takes_rows(config);
}

DataParallelOptions parallel_options(const ResolvedRun& run, const Model& model) {
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

bool has_own_buffers(const ResolvedRun& config, const Model& model) {
  return config.parallel.buffers == "local" && !model.module->buffers().empty();
}

constexpr std::int64_t kStepsAlone = 10;

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

std::optional<ServedTables> served(const ResolvedRun& config, const Model& model, std::optional<TablePlace> place) {
  if (!place) return std::nullopt;
  return ServedTables(config.parallel, *model.module, std::move(*place));
}

/// DataParallel divides gradients by the ranks, so each batch's mean loss is scaled by its items * ranks / S.
class MirroredRun final : public ParallelRun, private StepView {
 public:
  MirroredRun(const ResolvedRun& config, const Model& model, const Group& group, const ForwardOptions& options,
              std::optional<TablePlace> tables)
      : model_(model),
        options_(with_sums(options, group)),
        parallel_(model.module, group, parallel_options(config, model)),
        tables_(served(config, model, std::move(tables))),
        updater_(run_of_module(config, *model.module), parallel_, config.parallel.shard_optimizer, can_rejoin(group)),
        clip_norm_(config.train.clip_norm),
        is_one_batch_(config.parallel.sync_batch_norm),
        dense_gradients_(!sends_rows(config)),
        alone_(tables_ && most_ahead(config.parallel.server)),
        keeps_whole_state_(!config.parallel.shard_optimizer && !has_own_buffers(config, model)) {
    if (config.train.cuda_graph) {
      why_not_recorded_ = group.size() > 1 ? "the run has several ranks" : why_not_recorded(config, *model.module);
      if (!why_not_recorded_) recorded_.emplace(model_, parallel_, updater_, options_);
    }
    if (can_rejoin(group) && group.size() > 1 && has_own_buffers(config, model)) ring_.emplace(model.module, group);
  }

  StepLosses step(const StepRequest& request, samples::Batches& batches) override {
    if (recorded_ && !recorded_->why_not()) return take_step(*recorded_, request, batches);
    StepRequest own = request;
    if (is_one_batch_) own.want_global_loss = true;
    if (ring_) watch_step(own, *ring_);
    auto losses = take_step(*this, own, batches);
    if (ring_) ring_->end_step();
    if (is_one_batch_) losses.local = losses.global;
    return losses;
  }

  Evaluation evaluate(samples::Batches& batches, EvaluationPurpose purpose) override {
    synchronize();
    // Each rank has a share of the samples; a rank without samples does not have the names of metrics.
    return train::evaluate(
        model_, batches, options_,
        {.sums = [this](const Sums& own) { return add_up(gather_texts(to_text(own), parallel_.group())); },
         .rows = [this](const Rows& own) { return gather_rows(own, parallel_.group()); }},
        purpose);
  }

  Prediction predict(samples::Batch batch) override { return train::predict(model_, std::move(batch), options_); }

  NamedTensors model_state() override {
    synchronize();
    return module_state(*model_.module);
  }

  SavedState state_to_save() override {
    const auto& group = parallel_.group();
    SavedState state{
        .group = group, .mesh = {.sizes = {group.size()}, .names = {"data"}}, .tensors = {}, .in_parts = {}};
    add_part(state.tensors, "model", model_state());
    updater_.add_state(state);
    return state;
  }

  void load_state(StateSource& source) override {
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

  NamedTensors optimizer_state() const override { return updater_.state(); }
  bool keeps_whole_state() const override { return keeps_whole_state_; }

  std::optional<KeptParts> take_parts() override {
    auto parts = updater_.take_parts();
    if (!ring_) return parts;
    if (!parts) parts.emplace();
    ring_->add_to(*parts);
    return parts;
  }

  std::vector<RemoteTensor> distant_tensors() override {
    return tables_ ? tables_->tensors() : std::vector<RemoteTensor>();
  }

  SavedState with_distant(SavedState state) override {
    return tables_ ? tables_->saved(std::move(state.tensors)) : std::move(state);
  }

  void finish(std::optional<int> ended_by) override {
    if (tables_) tables_->finish(ended_by);
  }

  std::optional<std::string> recording() const override {
    if (recorded_ && recorded_->is_recorded()) return "steps are launched as a CUDA graph";
    const auto& why_not = recorded_ ? recorded_->why_not() : why_not_recorded_;
    if (!why_not) return std::nullopt;
    return "steps are not recorded as a CUDA graph (train.cuda_graph): " + *why_not;
  }

  int random_stream() const override { return parallel_.group().rank(); }

 private:
  // Called before all ranks use the weights: evaluations, saves, results.
  void synchronize() {
    if (tables_) tables_->refresh();
    parallel_.synchronize_buffers();
    if (ring_) ring_->synchronized();
  }

  // One step: see StepView.

  // Gradients become undefined and not zero, as in newer libtorch: a parameter that no rank used is then not updated.
  void begin() override {
    vote_.reset();
    model_.module->zero_grad(/*set_to_none=*/true);
  }

  // For an empty batch the loss is 0 if forward runs, and else undefined.
  at::Tensor forward(samples::Batch batch, const StepRequest& request, bool last, StepSums& own) override {
    if (!last) quiet_.emplace(parallel_);
    items_ = 0;
    if (batch.count == 0) {
      at::Tensor nothing;
      if (is_one_batch_) nothing = forward_nothing(model_, std::move(batch), options_);
      add_no_loss_sums(model_, options_);
      return nothing;
    }
    auto forwarded = train::forward(model_, std::move(batch), options_, /*measures=*/false);
    const auto& loss = forwarded.outcome.loss;
    items_ = forwarded.items;
    if (!request.loss_scale) require_finite(loss.item<double>(), request, parallel_.group().world().rank);
    if (items_ > 0) own.loss += loss.item<double>() * items_;
    own.items += items_;
    return loss;
  }

  void vote(const StepSums& own, const StepRequest& request) override {
    const bool meets = !alone_ || request.want_global_loss || (request.step_in_epoch - 1) % kStepsAlone == 0;
    if (!meets) return;
    vote_.emplace(request.votes ? request.votes() : StepVotes(), std::vector{own.loss, own.items}, parallel_.group());
  }

  void backward(const at::Tensor& loss, const StepRequest& request, bool last,
                const std::function<void()>& sending) override {
    if (!loss.defined()) {
      if (last && sending) sending();
      parallel_.backward_without_data();
    } else {
      std::optional<BackwardHook> hook;
      if (last && sending) hook.emplace(*model_.module, sending);
      const double share = items_ * static_cast<double>(parallel_.group().size()) /
                           static_cast<double>(request.samples) * request.loss_scale.value_or(1.0);
      (share == 1.0 ? loss : loss * share).backward();
    }
    quiet_.reset();
  }

  StepLosses reduce(StepSums& own, const StepRequest& request) override {
    const auto ranks = parallel_.group().size();
    if (vote_) vote_->wait();
    if (ranks == 1) mirrored::settle_sparse_gradients(model_.module->parameters(), dense_gradients_);
    StepLosses losses;
    if (own.items > 0) losses.local = own.loss / own.items;
    if (vote_ && vote_->sum(1) > 0) losses.global = vote_->sum(0) / vote_->sum(1);
    if (vote_) losses.agreed = vote_->agreed();
    if (request.loss_scale) {
      // Ranks have the same sums and gradients, so they agree without a message.
      losses.overflow = !std::isfinite(vote_->sum(0)) || !gradients_are_finite(*model_.module);
      leave_out_infinite(losses);
    }
    own.items = alone_ ? own.items * static_cast<double>(ranks) : vote_->sum(1);
    return losses;
  }

  void scale(double factor, double lr) override {
    if (tables_) tables_->update(lr, factor);
    if (factor != 1.0) scale_gradients(*model_.module, factor);
  }

  void update(double lr, const std::function<void(StepPoint)>& at) override { updater_.step(lr, clip_norm_, at); }

  const Model& model_;
  ForwardOptions options_;
  DataParallel parallel_;
  std::optional<ServedTables> tables_;  ///< on parameter servers
  Updater updater_;
  std::optional<RecordedStep> recorded_;  ///< the view in place of this one
  std::optional<std::string> why_not_recorded_;
  std::optional<BufferRing> ring_;  ///< with recovery and buffers that differ between ranks
  double clip_norm_;                ///< 0 leaves the gradients as they are
  /// Whether the ranks' batches count as one, with its loss as in the global view. Forward then also runs for batches
  /// without samples, because it has collectives.
  bool is_one_batch_;
  bool dense_gradients_;  ///< one rank: sparse gradients become dense, as they do on several
  /// Ranks wait for each other only every kStepsAlone steps: gradients are those of the mean loss over this rank's
  /// items, and votes count at the next synchronization.
  bool alone_;
  bool keeps_whole_state_;
  std::optional<DataParallel::NoSync> quiet_;  ///< around all but the last batch
  double items_ = 0;                           ///< of the last forward
  std::optional<Vote> vote_;                   ///< with the sums of losses and items, while backward runs
};

}  // namespace

std::unique_ptr<ParallelRun> make_mirrored_run(const ResolvedRun& config, const Model& model, const Group& group,
                                               const ForwardOptions& options, std::optional<TablePlace> tables) {
  return std::make_unique<MirroredRun>(config, model, group, options, std::move(tables));
}

}  // namespace lockstep::train
