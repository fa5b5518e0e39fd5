#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/training_step.h>

#include <torch/torch.h>

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

std::int64_t pictures_of_all_ranks(BatchList batches) {
  std::int64_t sum = 0;
  for (const auto& batch : batches) sum += batch->global_count;
  return sum;
}

std::int64_t own_pictures(BatchList batches) {
  std::int64_t sum = 0;
  for (const auto& batch : batches) sum += batch->count;
  return sum;
}

std::vector<at::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> out;
  for (const auto& group : optimizer.param_groups()) {
    out.insert(out.end(), group.params().begin(), group.params().end());
  }
  return out;
}

}  // namespace

TrainingStep::TrainingStep(const models::Classifier& model, DataParallel& parallel, torch::optim::Optimizer& optimizer,
                           const ForwardOptions& options, double clip_norm)
    : model_(model), parallel_(parallel), optimizer_(optimizer), options_(options), clip_norm_(clip_norm) {}

at::Tensor TrainingStep::forward_checked(const StepRequest& request, std::size_t i, double& loss_sum) const {
  const auto& batch = request.batches[i];
  if (batch->count == 0) return {};
  auto loss = forward(model_, batch, options_).loss;
  const double value = loss.item<double>();
  if (!std::isfinite(value)) {
    fail(ErrorKind::numeric, "train",
         "epoch: {} step: {}, loss is {} on rank {}; training cannot go on. A lower optimizer.lr, a warm-up or "
         "train.clip_norm may help",
         request.epoch, request.step_in_epoch, value, parallel_.group().world().rank);
  }
  loss_sum += value * static_cast<double>(batch->count);
  return loss;
}

StepLosses TrainingStep::run(const StepRequest& request) {
  const auto pictures = static_cast<double>(pictures_of_all_ranks(request.batches));
  const auto ranks = static_cast<double>(parallel_.group().size());
  double loss_sum = 0;
  std::optional<LossSum> global;
  // Undefined rather than zero, as newer libtorch does: a parameter that no rank used is then left alone.
  model_.module->zero_grad(/*set_to_none=*/true);
  for (std::size_t i = 0; i < request.batches.size(); ++i) {
    const bool last = i + 1 == request.batches.size();
    std::optional<DataParallel::NoSync> quiet;
    if (!last) quiet.emplace(parallel_);
    const auto loss = forward_checked(request, i, loss_sum);
    if (last && request.want_global_loss) global.emplace(loss_sum, parallel_.group());
    if (!loss.defined()) {
      parallel_.backward_without_data();
      continue;
    }
    const double share = static_cast<double>(request.batches[i]->count) * ranks / pictures;
    (share == 1.0 ? loss : loss * share).backward();
  }
  StepLosses losses;
  if (const auto own = own_pictures(request.batches); own > 0) losses.local = loss_sum / static_cast<double>(own);
  if (global) losses.global = global->wait() / pictures;
  update(request.lr);
  return losses;
}

void TrainingStep::update(double lr) {
  if (clip_norm_ > 0) torch::nn::utils::clip_grad_norm_(parameters_of(optimizer_), clip_norm_);
  set_learning_rate(optimizer_, lr);
  optimizer_.step();
}

}  // namespace lockstep::train
