// The calls of a data parallel step: the vote is under way while backward runs, the reducer sends gradients meanwhile.
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/modes/mirrored_step.h>
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

MirroredStep::MirroredStep(const Model& model, DataParallel& parallel, Updater& updater, Options options)
    : model_(model), parallel_(parallel), updater_(updater), options_(std::move(options)) {}

// Gradients become undefined and not zero, as in newer libtorch: a parameter that no rank used is then not updated.
void MirroredStep::begin() {
  vote_.reset();
  model_.module->zero_grad(/*set_to_none=*/true);
}

// For an empty batch the loss is 0 if forward runs, and else undefined.
at::Tensor MirroredStep::forward(samples::Batch batch, const StepRequest& request, bool last, StepSums& own) {
  if (!last) quiet_.emplace(parallel_);
  items_ = 0;
  if (batch.count == 0) {
    at::Tensor nothing;
    if (options_.forwards_nothing) nothing = forward_nothing(model_, std::move(batch), options_.forward);
    add_no_loss_sums(model_, options_.forward);
    return nothing;
  }
  auto forwarded = train::forward(model_, std::move(batch), options_.forward, /*measures=*/false);
  const auto& loss = forwarded.outcome.loss;
  items_ = forwarded.items;
  if (!request.loss_scale) require_finite(loss.item<double>(), request, parallel_.group().world().rank);
  if (items_ > 0) own.loss += loss.item<double>() * items_;
  own.items += items_;
  return loss;
}

void MirroredStep::vote(const StepSums& own, const StepRequest& request) {
  const bool meets = !options_.alone || request.want_global_loss || (request.step_in_epoch - 1) % kStepsAlone == 0;
  if (!meets) return;
  vote_.emplace(request.votes ? request.votes() : StepVotes(), std::vector{own.loss, own.items}, parallel_.group());
}

void MirroredStep::backward(const at::Tensor& loss, const StepRequest& request, bool last,
                            const std::function<void()>& sending) {
  if (!loss.defined()) {
    if (last && sending) sending();
    parallel_.backward_without_data();
  } else {
    std::optional<BackwardHook> hook;
    if (last && sending) hook.emplace(*model_.module, sending);
    const double share = items_ * static_cast<double>(parallel_.group().size()) / static_cast<double>(request.samples) *
                         request.loss_scale.value_or(1.0);
    (share == 1.0 ? loss : loss * share).backward();
  }
  quiet_.reset();
}

StepLosses MirroredStep::reduce(StepSums& own, const StepRequest& request) {
  const auto ranks = parallel_.group().size();
  if (vote_) vote_->wait();
  if (ranks == 1) mirrored::settle_sparse_gradients(model_.module->parameters(), options_.dense_gradients);
  StepLosses losses;
  if (own.items > 0) losses.local = own.loss / own.items;
  if (vote_ && vote_->sum(1) > 0) losses.global = vote_->sum(0) / vote_->sum(1);
  if (vote_) losses.agreed = vote_->agreed();
  if (request.loss_scale) {
    // Ranks have the same sums and gradients, so they agree without a message.
    losses.overflow = !std::isfinite(vote_->sum(0)) || !gradients_are_finite(*model_.module);
    leave_out_infinite(losses);
  }
  own.items = options_.alone ? own.items * static_cast<double>(ranks) : vote_->sum(1);
  return losses;
}

void MirroredStep::scale(double factor, double lr) {
  if (options_.update_elsewhere) options_.update_elsewhere(lr, factor);
  if (factor != 1.0) scale_gradients(*model_.module, factor);
}

void MirroredStep::update(double lr, const std::function<void(StepPoint)>& at) {
  updater_.step(lr, options_.clip_norm, at);
}

}  // namespace lockstep::train
