// The run in the global view: one logical model over a mesh, its parameters and batches divided as configured. Training
// step, evaluation and state; ZeRO stage 1 by copies of parameters that are divided along the data axes.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/dispatch/named_operators.h>
#include <lockstep/global/dispatch/prefetch.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/gradient_scaling.h>
#include <lockstep/train/optimizer/parameter_groups.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

/// The part of a step that needs parameters: forward and backward. It also ends when the step throws.
class PrefetchedStep {
 public:
  explicit PrefetchedStep(global::Prefetch* prefetch) : prefetch_(prefetch) {
    if (prefetch_ != nullptr) prefetch_->begin_step();
  }
  ~PrefetchedStep() { end(); }
  PrefetchedStep(const PrefetchedStep&) = delete;
  PrefetchedStep& operator=(const PrefetchedStep&) = delete;

  void end() {
    if (auto* prefetch = std::exchange(prefetch_, nullptr)) prefetch->end_step();
  }

 private:
  global::Prefetch* prefetch_;
};

Placements divided(const at::Tensor& parameter, const MeshLayout& layout) {
  auto placements = placements_of(parameter);
  std::int64_t ranks = 1;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    const bool free = is_data_axis(layout.names[axis]) && placements[axis].is_replicate();
    if (free || placements[axis].is_shard(0)) ranks *= layout.sizes[axis];
  }
  if (parameter.dim() == 0 || parameter.size(0) < ranks) return placements;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (is_data_axis(layout.names[axis]) && placements[axis].is_replicate()) placements[axis] = Shard(0);
  }
  return placements;
}

NamedTensors whole(NamedTensors tensors) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors) {
    if (is_global(tensor)) tensor = full(tensor.detach());
  }
  return tensors;
}

GradientReductionOptions reduction_options(const ParallelConfig& config) {
  return {.bucket_bytes = bytes_of_mib(config.bucket_mb), .first_bucket_bytes = bytes_of_mib(config.first_bucket_mb)};
}

/// Each rank updates its part of the parameters, and gets the other parts by an all_gather; the optimizer's state is
/// divided in the same way. Results equal those of the whole optimizer, also for optimizers that need the norms of
/// whole parameters, because parts are global tensors. A parameter with fewer rows than ranks is not divided.
class DividedUpdate {
 public:
  DividedUpdate(NamedParameters parameters, const MeshLayout& layout) : parameters_(std::move(parameters)) {
    const torch::NoGradGuard no_grad;
    for (const auto& [name, parameter] : parameters_) {
      const auto placements = divided(parameter, layout);
      const bool whole = placements == placements_of(parameter);
      // A copy: the part must not share memory with parameters that backward reads.
      parts_.emplace_back(name, whole ? parameter : redistribute(parameter.detach(), placements).clone());
    }
  }

  /// The tensors that the optimizer updates: global tensors of the parameters' names and sizes.
  const NamedParameters& parts() const { return parts_; }

  /// Sets the gradients of the parts, without communication.
  void take_gradients() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto& parameter = parameters_[i].second;
      auto& part = parts_[i].second;
      if (part.is_same(parameter)) continue;
      part.mutable_grad() =
          parameter.grad().defined() ? redistribute(parameter.grad(), placements_of(part)) : at::Tensor();
    }
  }

  /// Copies the parts' values to the parameters, and removes the parts' gradients. A collective.
  void share() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      auto parameter = parameters_[i].second;
      auto& part = parts_[i].second;
      if (part.is_same(parameter) || !part.grad().defined()) continue;
      parameter.copy_(redistribute(part, placements_of(parameter)));
      part.mutable_grad() = at::Tensor();
    }
  }

  /// Copies the parameters' values to the parts, after the parameters were loaded, without communication.
  void take_values() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto& parameter = parameters_[i].second;
      auto& part = parts_[i].second;
      if (!part.is_same(parameter)) part.copy_(redistribute(parameter, placements_of(part)));
    }
  }

 private:
  NamedParameters parameters_;
  NamedParameters parts_;  ///< the parameter itself where it is not divided
};

/// Batches, losses and gradients are those of the whole batch, so BatchNorm sees all of it, and every rank draws the
/// same random numbers.
class GlobalRun final : public ParallelRun, private StepView {
 public:
  GlobalRun(const ResolvedRun& config, const Model& model, const Group& group, const ForwardOptions& options)
      : model_(model),
        group_(group),
        layout_(mesh_layout(config.parallel, group.size())),
        mesh_(group, layout_.sizes, layout_.names),
        options_(options),
        clip_norm_(config.train.clip_norm),
        gradient_scale_(config.parallel.gradients_mean ? 1.0 : group.size()) {
    options_.place = [mesh = mesh_, batch = batch_layout(config.parallel, layout_)](const std::string& name,
                                                                                    const at::Tensor& tensor) {
      const auto loaded = to_global(tensor, mesh, batch.loaded);
      const auto own = batch.inputs.find(name);
      return own == batch.inputs.end() ? loaded : redistribute(loaded, own->second);
    };
    const auto names = names_in(*model_.module);
    auto plan = whole_plan(config.parallel, layout_, names);
    distribute_module(*model_.module, mesh_, with_wrapper_placements(std::move(plan), config, layout_, *model_.module),
                      {.gradients = reduction_options(config.parallel)});
    global::set_strategies(*model_.module, mesh_, read_strategies(config.parallel, names).operators);
    parameters_ = trainable_parameters(*model_.module);
    if (const auto in_flight = prefetch_of(config); in_flight > 0) {
      prefetch_ = std::make_shared<global::Prefetch>(model_.module->parameters(), in_flight);
      mesh_.state()->set_prefetch(prefetch_);
    }
    if (config.parallel.shard_optimizer) divided_.emplace(parameters_, layout_);
    optimizer_ = make_optimizer(config, updated());
  }

  StepLosses step(const StepRequest& request, samples::Batches& batches) override {
    PrefetchedStep prefetched(prefetch_.get());
    prefetched_ = &prefetched;
    return take_step(*this, request, batches);
  }

  Evaluation evaluate(samples::Batches& batches, EvaluationPurpose purpose) override {
    return train::evaluate(
        model_, batches, options_,
        {.sums = [](const Sums& of_all) { return of_all; }, .rows = [](const Rows& of_all) { return of_all; }},
        purpose);
  }

  Prediction predict(samples::Batch batch) override {
    auto prediction = train::predict(model_, std::move(batch), options_);
    for (auto& [name, tensor] : prediction.tensors) {
      if (is_global(tensor)) tensor = full(tensor);
    }
    return prediction;
  }

  bool predicts_all() const override { return true; }
  NamedTensors model_state() override { return whole(module_state(*model_.module)); }

  SavedState state_to_save() override {
    SavedState state{.group = group_, .mesh = state::shape_of(mesh_), .tensors = {}, .in_parts = {}};
    add_part(state.tensors, "model", module_state(*model_.module));
    add_part(state.tensors, "optimizer", train::optimizer_state(*optimizer_, updated()));
    return state;
  }

  void load_state(StateSource& source) override {
    const torch::NoGradGuard no_grad;
    const auto read = [&source](const std::string& name, const Box& box, at::Tensor& into) {
      source.read(name, box, into);
    };
    const auto saved = without_frozen(source.outline("optimizer"), *model_.module);
    const std::map<std::string, at::Tensor, std::less<>> parameters(updated().begin(), updated().end());
    NamedTensors state;
    all_or_none(&group_, problem_of([&] {
      require_module_state(*model_.module, source.outline("model"));
      for (const auto& [name, tensor] : module_state(*model_.module)) fill("model." + name, tensor, read);
      if (divided_) divided_->take_values();
      for (const auto& [name, outline] : saved) {
        const auto owner = parameters.find(std::string_view(name).substr(0, name.rfind('.')));
        // Tensors that are not divided with a parameter are read unchanged: a step counter, or a tensor that
        // load_optimizer_state rejects.
        if (owner == parameters.end() || owner->second.sizes() != outline.sizes() || outline.dim() == 0) {
          state.emplace(name, source.read("optimizer." + name));
          continue;
        }
        const auto tensor = torch::zeros_like(owner->second);
        fill("optimizer." + name, tensor, read);
        state.emplace(name, tensor);
      }
    }));
    train::load_optimizer_state(*optimizer_, updated(), state);
  }

  int random_stream() const override { return 0; }

  std::vector<std::string> closing_words() const override {
    constexpr std::size_t kMostShown = 8;
    auto calls = gathering_calls(mesh_);
    if (calls.empty()) return {};
    const auto all = calls.size();
    calls.resize(std::min(all, kMostShown));
    return {
        fmt::format("{} operator call{} gathered divided tensors on every rank, most bytes first: {}{} "
                    "(LOCKSTEP_GLOBAL_STRICT=list logs where each begins)",
                    all, all == 1 ? "" : "s of different kinds", fmt::join(calls, "; "),
                    all > kMostShown ? fmt::format("; and {} more", all - kMostShown) : "")};
  }

 private:
  /// The parameters that the optimizer updates.
  const NamedParameters& updated() const { return divided_ ? divided_->parts() : parameters_; }

  // One step: see StepView.

  void begin() override { model_.module->zero_grad(/*set_to_none=*/true); }

  at::Tensor forward(samples::Batch batch, const StepRequest& request, bool /*last*/, StepSums& own) override {
    auto forwarded = train::forward(model_, std::move(batch), options_, /*measures=*/false);
    const auto value = forwarded.outcome.loss.item<double>();
    if (!request.loss_scale) require_finite(value, request);
    share_ = forwarded.items / static_cast<double>(request.samples);
    own.loss += value * share_;
    own.items += forwarded.items;
    return forwarded.outcome.loss;
  }

  void vote(const StepSums& /*own*/, const StepRequest& request) override {
    votes_ = request.votes ? request.votes() : StepVotes();
  }

  void backward(const at::Tensor& loss, const StepRequest& request, bool last,
                const std::function<void()>& sending) override {
    std::optional<HoldGradients> hold;  // nothing is sent for gradients before the last batch
    if (!last) hold.emplace();
    if (last && sending) sending();
    const double scale = share_ * gradient_scale_ * request.loss_scale.value_or(1.0);
    (scale == 1.0 ? loss : loss * scale).backward();
  }

  StepLosses reduce(StepSums& own, const StepRequest& request) override {
    prefetched_->end();
    const double mean = own.items > 0 ? own.loss * static_cast<double>(request.samples) / own.items : own.loss;
    // Each rank has its own parts of the gradients, so that they can overflow on some ranks only.
    const bool finite = !request.loss_scale || (std::isfinite(mean) && gradients_are_finite(*model_.module));
    Vote vote(votes_, {finite ? 0.0 : 1.0}, group_);
    vote.wait();
    StepLosses losses{.local = mean, .global = mean, .overflow = vote.sum(0) > 0, .agreed = vote.agreed()};
    if (losses.overflow) leave_out_infinite(losses);
    return losses;
  }

  void scale(double factor, double /*lr*/) override {
    if (factor != 1.0) scale_gradients(*model_.module, factor);
  }

  void update(double lr, const std::function<void(StepPoint)>& at) override {
    if (clip_norm_ > 0) clip_gradients(tensors_of(parameters_), clip_norm_);
    set_learning_rate(*optimizer_, lr);
    if (divided_) divided_->take_gradients();
    at(StepPoint::before_update);
    optimizer_->step();
    if (divided_) divided_->share();
    at(StepPoint::after_update);
  }

  const Model& model_;
  Group group_;
  MeshLayout layout_;
  Mesh mesh_;
  ForwardOptions options_;
  double clip_norm_;
  double gradient_scale_;
  NamedParameters parameters_;
  std::shared_ptr<global::Prefetch> prefetch_;  ///< with a parallel.wrapper that places parameters
  std::optional<DividedUpdate> divided_;        ///< with parallel.shard_optimizer
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  PrefetchedStep* prefetched_ = nullptr;  ///< of the step under way
  double share_ = 0;                      ///< of the last forward: its items / samples of the step
  StepVotes votes_{};                     ///< of this rank in this step
};

}  // namespace

std::unique_ptr<ParallelRun> make_global_run(const ResolvedRun& config, const Model& model, const Group& group,
                                             const ForwardOptions& options) {
  return std::make_unique<GlobalRun>(config, model, group, options);
}

}  // namespace lockstep::train
