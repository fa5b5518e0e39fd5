#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/train/training_step.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::train {
namespace {

// The sum of all ranks' losses, on its way while backward runs.
class LossSum {
 public:
  LossSum(double own, const Group& group)
      : sum_(torch::full({1}, own, torch::kDouble)), work_(all_reduce_async(sum_, group)) {}

  double wait() {
    work_.wait();
    return sum_.item<double>();
  }

 private:
  at::Tensor sum_;
  Work work_;
};

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

TrainingStep::TrainingStep(const models::Classifier& model, DataParallel& parallel, Updater& updater, Options options)
    : model_(model), parallel_(parallel), updater_(updater), options_(std::move(options)) {}

at::Tensor TrainingStep::forward_checked(const std::shared_ptr<data::Batch>& batch, const StepRequest& request) const {
  if (batch->count == 0)
    return options_.forwards_nothing ? forward_nothing(model_, batch, options_.forward) : at::Tensor();
  auto loss = forward(model_, batch, options_.forward).loss;
  const double value = loss.item<double>();
  if (!std::isfinite(value)) {
    fail(ErrorKind::numeric, "train",
         "epoch: {} step: {}, loss is {} on rank {}; training cannot go on. A lower optimizer.lr, a warm-up or "
         "train.clip_norm may help",
         request.epoch, request.step_in_epoch, value, parallel_.group().world().rank);
  }
  return loss;
}

StepLosses TrainingStep::run(const StepRequest& request, data::Loader& loader) {
  const auto pictures = static_cast<double>(request.pictures);
  const auto ranks = static_cast<double>(parallel_.group().size());
  double own_loss = 0, own_pictures = 0;
  std::optional<LossSum> all_loss;
  // Undefined rather than zero, as newer libtorch does: a parameter that no rank used is then left alone.
  model_.module->zero_grad(/*set_to_none=*/true);
  for (std::int64_t i = 0; i < request.batches; ++i) {
    const bool last = i + 1 == request.batches;
    std::optional<DataParallel::NoSync> quiet;
    if (!last) quiet.emplace(parallel_);
    const auto batch = loader.next();
    const auto count = static_cast<double>(batch->count);
    const auto loss = forward_checked(batch, request);
    if (i == 0 && request.fault) request.fault(FaultPlace::forward);
    if (loss.defined()) own_loss += loss.item<double>() * count;
    own_pictures += count;
    if (last && request.want_global_loss) all_loss.emplace(own_loss, parallel_.group());
    if (last && request.forwarded) request.forwarded();
    if (last && request.signals != nullptr && request.signals->noted()) parallel_.vote_to_stop();
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
    const double share = count * ranks / pictures;
    (share == 1.0 ? loss : loss * share).backward();
  }
  StepLosses losses;
  if (own_pictures > 0) losses.local = own_loss / own_pictures;
  if (all_loss) losses.global = all_loss->wait() / pictures;
  if (request.leaving) request.leaving();  // where that parameter took no part
  if (request.fault) request.fault(FaultPlace::reduced);
  updater_.step(request.lr, options_.clip_norm);
  return losses;
}

}  // namespace lockstep::train
