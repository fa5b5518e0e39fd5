// The data-parallel training step: forward and backward of each batch, one reduction of losses and votes during the
// last backward, overflow check, scaling of gradients, update.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/modes/training_step.h>
#include <lockstep/train/optimizer/clip_gradients.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
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

}  // namespace

void require_finite(double loss, const StepRequest& request, int rank) {
  if (std::isfinite(loss)) return;
  fail(ErrorKind::numeric, "train",
       "epoch: {} step: {}, loss is {} on rank {}; training cannot go on. A lower optimizer.lr, a warm-up or "
       "train.clip_norm may help",
       request.epoch, request.step_in_epoch, loss, rank);
}

void leave_out_infinite(StepLosses& losses) {
  for (auto* loss : {&losses.local, &losses.global}) {
    if (*loss && !std::isfinite(**loss)) loss->reset();
  }
}

TrainingStep::TrainingStep(const Model& model, DataParallel& parallel, Updater& updater, Options options)
    : model_(model), parallel_(parallel), updater_(updater), options_(std::move(options)) {}

Forwarded TrainingStep::forward_checked(samples::Batch batch, const StepRequest& request) const {
  if (batch.count == 0) {
    Forwarded nothing;
    if (options_.forwards_nothing) nothing.outcome.loss = forward_nothing(model_, std::move(batch), options_.forward);
    add_no_loss_sums(model_, options_.forward);
    return nothing;
  }
  auto forwarded = forward(model_, std::move(batch), options_.forward, /*measures=*/false);
  if (!request.loss_scale) {
    require_finite(forwarded.outcome.loss.item<double>(), request, parallel_.group().world().rank);
  }
  return forwarded;
}

StepLosses TrainingStep::run(const StepRequest& request, samples::Batches& batches) {
  const auto all_samples = static_cast<double>(request.samples);
  const auto ranks = static_cast<double>(parallel_.group().size());
  const double loss_scale = request.loss_scale.value_or(1.0);
  double own_loss = 0, own_items = 0;
  const bool meets = !options_.alone || request.want_global_loss || (request.step_in_epoch - 1) % kStepsAlone == 0;
  std::optional<Vote> vote;  // with the sums of losses and items, while backward runs
  // Gradients become undefined and not zero, as in newer libtorch: a parameter that no rank used is then not updated.
  model_.module->zero_grad(/*set_to_none=*/true);
  for (std::int64_t i = 0; i < request.batches; ++i) {
    const bool last = i + 1 == request.batches;
    std::optional<DataParallel::NoSync> quiet;
    if (!last) quiet.emplace(parallel_);
    const auto forwarded = forward_checked(batches.next().value(), request);
    const auto& loss = forwarded.outcome.loss;
    if (i == 0 && request.inspect && loss.defined()) request.inspect(loss);
    if (i == 0 && request.fault) request.fault(FaultPlace::forward);
    if (forwarded.items > 0) own_loss += loss.item<double>() * forwarded.items;
    own_items += forwarded.items;
    if (last && request.at) request.at(StepPoint::before_backward);
    if (last && meets) {
      vote.emplace(request.votes ? request.votes() : StepVotes(), std::vector{own_loss, own_items}, parallel_.group());
    }
    if (last && request.forwarded) request.forwarded();
    const auto near_the_end = [&] {
      if (request.leaving) request.leaving();
      if (request.fault) request.fault(FaultPlace::backward);
    };
    if (!loss.defined()) {
      if (last && request.leaving) request.leaving();
      parallel_.backward_without_data();
      continue;
    }
    std::optional<BackwardHook> hook;
    if (last && (request.fault || request.leaving)) hook.emplace(*model_.module, near_the_end);
    const double share = forwarded.items * ranks / all_samples * loss_scale;
    (share == 1.0 ? loss : loss * share).backward();
  }
  if (vote) vote->wait();
  if (parallel_.group().size() == 1)
    mirrored::settle_sparse_gradients(model_.module->parameters(), options_.dense_gradients);
  StepLosses losses;
  if (own_items > 0) losses.local = own_loss / own_items;
  if (vote && vote->sum(1) > 0) losses.global = vote->sum(0) / vote->sum(1);
  if (vote) losses.agreed = vote->agreed();
  if (request.loss_scale) {
    // Ranks have the same sums and gradients, so they agree without a message.
    losses.overflow = !std::isfinite(vote->sum(0)) || !gradients_are_finite(*model_.module);
    leave_out_infinite(losses);
  }
  if (request.leaving) request.leaving();  // if that parameter was not used
  if (request.fault) request.fault(FaultPlace::reduced);
  if (losses.overflow) return losses;
  const double items = options_.alone ? own_items * ranks : vote->sum(1);
  const double per_item = (items > 0 ? all_samples / items : 1.0) / loss_scale;
  if (options_.update_elsewhere) options_.update_elsewhere(request.lr, per_item);
  if (per_item != 1.0) scale_gradients(*model_.module, per_item);
  if (request.at) request.at(StepPoint::after_backward);
  updater_.step(request.lr, options_.clip_norm, request.at);
  return losses;
}

}  // namespace lockstep::train
