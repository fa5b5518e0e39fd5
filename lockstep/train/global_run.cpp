#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/distribute_module.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/clip_gradients.h>
#include <lockstep/train/evaluate.h>
#include <lockstep/train/global_run.h>

#include <torch/torch.h>

#include <cmath>
#include <optional>

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

std::vector<std::string> names_of(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module_state(module)) names.push_back(name);
  return names;
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
  options_.place = [mesh = mesh_, placements = batch_placements(layout_)](const at::Tensor& tensor) {
    return to_global(tensor, mesh, placements);
  };
  distribute_module(*model_.module, mesh_, whole_plan(config.parallel, layout_, names_of(*model_.module)),
                    {.gradients = reduction_options(config.parallel)});
  parameters_ = trainable_parameters(*model_.module);
  optimizer_ = make_optimizer(config.optimizer, parameters_);
}

GlobalRun::~GlobalRun() = default;

StepLosses GlobalRun::step(const StepRequest& request, samples::Batches& batches) {
  const auto all_samples = static_cast<double>(request.samples);
  double loss_sum = 0, items = 0;
  model_.module->zero_grad(/*set_to_none=*/true);
  for (std::int64_t i = 0; i < request.batches; ++i) {
    const auto forwarded = forward(model_, batches.next().value(), options_, /*measures=*/false);
    const auto& loss = forwarded.outcome.loss;
    const double share = forwarded.items / all_samples;
    const auto value = loss.item<double>();
    if (!std::isfinite(value)) {
      fail(ErrorKind::numeric, "train",
           "epoch: {} step: {}, loss is {}; training cannot go on. A lower optimizer.lr, a warm-up or train.clip_norm "
           "may help",
           request.epoch, request.step_in_epoch, value);
    }
    loss_sum += value * share;
    items += forwarded.items;
    std::optional<HoldGradients> hold;  // nothing is sent for gradients before the last batch
    if (i + 1 < request.batches) hold.emplace();
    const double scale = share * gradient_scale_;
    (scale == 1.0 ? loss : loss * scale).backward();
  }
  agree_on_end(request.signals);
  const double per_item = items > 0 ? all_samples / items : 1.0;
  if (per_item != 1.0) scale_gradients(*model_.module, per_item);
  if (clip_norm_ > 0) clip_gradients(tensors_of(parameters_), clip_norm_);
  set_learning_rate(*optimizer_, request.lr);
  optimizer_->step();
  const double mean_loss = loss_sum * per_item;
  return {.local = mean_loss, .global = request.want_global_loss ? std::optional(mean_loss) : std::nullopt};
}

void GlobalRun::agree_on_end(const StopSignals* signals) {
  auto hands = torch::full({1}, signals != nullptr && signals->noted() ? 1 : 0, torch::kInt);
  all_reduce(hands, group_);
  asked_to_end_ = hands.item<int>() > 0;
}

Evaluation GlobalRun::evaluate(samples::Batches& batches) {
  return train::evaluate(model_, batches, options_, [](const Sums& of_all) { return of_all; });
}

NamedTensors GlobalRun::model_state() { return whole(module_state(*model_.module)); }

NamedTensors GlobalRun::optimizer_state() { return whole(train::optimizer_state(*optimizer_, parameters_)); }

std::optional<NamedTensors> GlobalRun::divided_state() {
  NamedTensors tensors;
  add_part(tensors, "model", module_state(*model_.module));
  add_part(tensors, "optimizer", train::optimizer_state(*optimizer_, parameters_));
  return tensors;
}

void GlobalRun::load_optimizer_state(const NamedTensors& state) {
  train::load_optimizer_state(*optimizer_, parameters_, state);
}

}  // namespace lockstep::train
