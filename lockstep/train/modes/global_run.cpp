// The run in the global view: distribution of module and batches over the mesh, training step, evaluation and state.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/dispatch/named_operators.h>
#include <lockstep/global/dispatch/prefetch.h>
#include <lockstep/global/distribute_module.h>
#include <lockstep/state/sharded/all_or_none.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/modes/evaluate.h>
#include <lockstep/train/modes/global_run.h>
#include <lockstep/train/modes/module_names.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/optimizer/clip_gradients.h>
#include <lockstep/train/optimizer/freeze.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace lockstep::train {
namespace {

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

}  // namespace

GlobalRun::GlobalRun(const RunConfig& config, const Model& model, const Group& group, const ForwardOptions& options)
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
  distribute_module(*model_.module, mesh_,
                    with_wrapper_placements(std::move(plan), config.parallel.wrapper, layout_, *model_.module),
                    {.gradients = reduction_options(config.parallel)});
  global::set_strategies(*model_.module, mesh_, read_strategies(config.parallel, names).operators);
  parameters_ = trainable_parameters(*model_.module);
  if (const auto in_flight = prefetch_of(config.parallel.wrapper); in_flight > 0) {
    prefetch_ = std::make_shared<global::Prefetch>(model_.module->parameters(), in_flight);
    mesh_.state()->set_prefetch(prefetch_);
  }
  if (config.parallel.shard_optimizer) divided_.emplace(parameters_, layout_);
  optimizer_ = make_optimizer(config.optimizer, updated());
}

GlobalRun::~GlobalRun() = default;

/// The part of a step that needs parameters: forward and backward. It also ends when the step throws.
class GlobalRun::PrefetchedStep {
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

StepLosses GlobalRun::step(const StepRequest& request, samples::Batches& batches) {
  PrefetchedStep prefetched(prefetch_.get());
  prefetched_ = &prefetched;
  return take_step(*this, request, batches);
}

void GlobalRun::begin() { model_.module->zero_grad(/*set_to_none=*/true); }

at::Tensor GlobalRun::forward(samples::Batch batch, const StepRequest& request, bool /*last*/, StepSums& own) {
  auto forwarded = train::forward(model_, std::move(batch), options_, /*measures=*/false);
  const auto value = forwarded.outcome.loss.item<double>();
  if (!request.loss_scale) require_finite(value, request);
  share_ = forwarded.items / static_cast<double>(request.samples);
  own.loss += value * share_;
  own.items += forwarded.items;
  return forwarded.outcome.loss;
}

void GlobalRun::vote(const StepSums& /*own*/, const StepRequest& request) {
  votes_ = request.votes ? request.votes() : StepVotes();
}

void GlobalRun::backward(const at::Tensor& loss, const StepRequest& request, bool last,
                         const std::function<void()>& sending) {
  std::optional<HoldGradients> hold;  // nothing is sent for gradients before the last batch
  if (!last) hold.emplace();
  if (last && sending) sending();
  const double scale = share_ * gradient_scale_ * request.loss_scale.value_or(1.0);
  (scale == 1.0 ? loss : loss * scale).backward();
}

StepLosses GlobalRun::reduce(StepSums& own, const StepRequest& request) {
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

void GlobalRun::scale(double factor, double /*lr*/) {
  if (factor != 1.0) scale_gradients(*model_.module, factor);
}

void GlobalRun::update(double lr, const std::function<void(StepPoint)>& at) {
  if (clip_norm_ > 0) clip_gradients(tensors_of(parameters_), clip_norm_);
  set_learning_rate(*optimizer_, lr);
  if (divided_) divided_->take_gradients();
  at(StepPoint::before_update);
  optimizer_->step();
  if (divided_) divided_->share();
  at(StepPoint::after_update);
}

Evaluation GlobalRun::evaluate(samples::Batches& batches, EvaluationPurpose purpose) {
  return train::evaluate(
      model_, batches, options_,
      {.sums = [](const Sums& of_all) { return of_all; }, .rows = [](const Rows& of_all) { return of_all; }}, purpose);
}

Prediction GlobalRun::predict(samples::Batch batch) {
  auto prediction = train::predict(model_, std::move(batch), options_);
  for (auto& [name, tensor] : prediction.tensors) {
    if (is_global(tensor)) tensor = full(tensor);
  }
  return prediction;
}

std::vector<std::string> GlobalRun::closing_words() const {
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

NamedTensors GlobalRun::model_state() { return whole(module_state(*model_.module)); }

SavedState GlobalRun::state_to_save() {
  SavedState state{.group = group_, .mesh = state::shape_of(mesh_), .tensors = {}, .in_parts = {}};
  add_part(state.tensors, "model", module_state(*model_.module));
  add_part(state.tensors, "optimizer", train::optimizer_state(*optimizer_, updated()));
  return state;
}

void GlobalRun::load_state(StateSource& source) {
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

}  // namespace lockstep::train
