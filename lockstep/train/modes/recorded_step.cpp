// A training step launched as a CUDA graph: the conditions that prevent recording, and a loss that the host reads only
// at some steps.
#include <lockstep/kernels/optimizer_update.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/modes/recorded_step.h>
#include <lockstep/train/served/served_tables.h>

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep::train {

std::optional<std::string> why_not_recorded(const RunConfig& config, const torch::nn::Module& module) {
  if (is_served_mode(config.parallel)) return "a part of each step is on parameter servers";
  if (config.parallel.shard_optimizer) return "parallel.shard_optimizer divides the update";
  if (config.train.accumulate > 1) return "train.accumulate has several batches in a step";
  if (config.train.clip_norm > 0) return "train.clip_norm reads the norm of gradients on the host";
  if (config.loss_scaler.type != "none") return "loss_scaler reads the gradients on the host";
  if (!mirrored::sparse_tables(module).empty()) return "the model has sparse gradients";
  return std::nullopt;
}

RecordedStep::RecordedStep(const Model& model, const DataParallel& parallel, Updater& updater, ForwardOptions forward)
    : model_(model),
      updater_(updater),
      forward_(std::move(forward)),
      step_(parallel, updater.whole_optimizer(), [this](const auto& inputs) { return loss_of(inputs); }) {}

at::Tensor RecordedStep::loss_of(const std::vector<at::Tensor>& inputs) const {
  auto batch = batch_;
  auto input = inputs.begin();
  for (auto& [name, tensor] : batch.tensors) tensor = *input++;
  return forward(model_, std::move(batch), forward_, /*measures=*/false).outcome.loss;
}

at::Tensor RecordedStep::launch(const std::vector<at::Tensor>& inputs) {
  if (batch_.lists.empty() && batch_.texts.empty()) return step_.run(inputs);
  why_not_ = "the data has lists or texts, and a graph cannot follow their changes";
  model_.module->zero_grad(/*set_to_none=*/true);
  const auto loss = loss_of(inputs);
  loss.backward();
  lockstep::update(updater_.whole_optimizer());
  return loss.detach();
}

StepLosses RecordedStep::run(const StepRequest& request, samples::Batches& batches) {
  batch_ = batches.next().value();
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : batch_.tensors) inputs.push_back(tensor);
  const auto tell = [&](StepPoint point) {
    if (request.at) request.at(point);
  };
  tell(StepPoint::before_backward);
  updater_.take_rate(request.lr);
  const auto on_device = launch(inputs);
  std::optional<double> loss;
  if (request.want_losses || request.want_global_loss || ++ahead_ == kMostAhead) {
    loss = on_device.item<double>();
    ahead_ = 0;
    require_finite(*loss, request, /*rank=*/0);
  }
  for (const auto point : {StepPoint::after_backward, StepPoint::before_update, StepPoint::after_update}) tell(point);
  return {.local = loss, .global = loss, .agreed = request.votes ? request.votes() : StepVotes()};
}

}  // namespace lockstep::train
