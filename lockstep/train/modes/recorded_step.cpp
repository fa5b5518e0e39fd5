// A training step launched as a CUDA graph: the conditions that prevent recording, and a loss that the host reads only
// at some steps.
#include <lockstep/kernels/tuning.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/modes/recorded_step.h>
#include <lockstep/train/served/served_tables.h>

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep::train {

std::optional<std::string> why_not_recorded(const ResolvedRun& config, const torch::nn::Module& module) {
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
  return train::forward(model_, std::move(batch), forward_, /*measures=*/false).outcome.loss;
}

at::Tensor RecordedStep::launch() {
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : batch_.tensors) inputs.push_back(tensor);
  if (batch_.lists.empty() && batch_.texts.empty()) return step_.run(inputs);
  why_not_ = "the data has lists or texts, and a graph cannot follow their changes";
  model_.module->zero_grad(/*set_to_none=*/true);
  const auto loss = loss_of(inputs);
  loss.backward();
  lockstep::update(updater_.whole_optimizer());
  return loss.detach();
}

at::Tensor RecordedStep::forward(samples::Batch batch, const StepRequest&, bool /*last*/, StepSums&) {
  batch_ = std::move(batch);
  return {};
}

void RecordedStep::backward(const at::Tensor&, const StepRequest& request, bool /*last*/,
                            const std::function<void()>& sending) {
  if (sending) sending();
  updater_.take_rate(request.lr);
  loss_ = launch();
}

StepLosses RecordedStep::reduce(StepSums&, const StepRequest& request) {
  std::optional<double> loss;
  if (request.want_losses || request.want_global_loss || ++ahead_ == kMostAhead) {
    loss = loss_.item<double>();
    ahead_ = 0;
    require_finite(*loss, request, /*rank=*/0);
  }
  return {.local = loss, .global = loss, .agreed = request.votes ? request.votes() : StepVotes()};
}

void RecordedStep::update(double /*lr*/, const std::function<void(StepPoint)>& at) {
  at(StepPoint::before_update);
  at(StepPoint::after_update);
}

}  // namespace lockstep::train
