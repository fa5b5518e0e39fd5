#include <lockstep/base/error.h>
#include <lockstep/kernels/channels_last.h>
#include <lockstep/train/autocast.h>
#include <lockstep/train/forward.h>

#include <torch/torch.h>

#include <fmt/ranges.h>

#include <utility>

namespace lockstep::train {
namespace {

// As the run wants its tensors: memory format, device, placement.
samples::Batch prepare(samples::Batch batch, const ForwardOptions& options) {
  for (auto& [name, tensor] : batch.tensors) {
    if (options.channels_last && tensor.dim() == 4 && tensor.is_floating_point()) tensor = to_channels_last(tensor);
    tensor = tensor.to(options.device);
    if (options.place) tensor = options.place(tensor);
  }
  if (options.place && !batch.tensors.empty()) batch.count = batch.tensors.begin()->second.size(0);
  return batch;
}

void require_scalar(const at::Tensor& loss) {
  if (loss.defined() && loss.numel() == 1) return;
  fail(ErrorKind::invalid_argument, "train", "the task's loss has to be a tensor of one element, it {}",
       loss.defined() ? fmt::format("has the shape [{}]; take its mean()", fmt::join(loss.sizes(), ", "))
                      : "is undefined");
}

}  // namespace

ForwardOptions forward_options(const RunConfig& config, const c10::Device& device) {
  return {config.model.channels_last, config.model.autocast == "bfloat16", device};
}

Forwarded forward(const Model& model, samples::Batch batch, const ForwardOptions& options, bool measures) {
  const auto prepared = prepare(std::move(batch), options);
  const Bfloat16Autocast autocast(options.bfloat16, options.device.is_cuda());
  Forwarded forwarded{.outcome = model.task->run(*model.module, prepared, measures),
                      .samples = static_cast<double>(prepared.count)};
  require_scalar(forwarded.outcome.loss);
  forwarded.items = forwarded.outcome.items.value_or(forwarded.samples);
  return forwarded;
}

at::Tensor forward_nothing(const Model& model, samples::Batch batch, const ForwardOptions& options) {
  const auto prepared = prepare(std::move(batch), options);
  const Bfloat16Autocast autocast(options.bfloat16, options.device.is_cuda());
  return model.task->nothing(*model.module, prepared);
}

samples::Tensors predict(const Model& model, samples::Batch batch, const ForwardOptions& options) {
  const auto prepared = prepare(std::move(batch), options);
  const Bfloat16Autocast autocast(options.bfloat16, options.device.is_cuda());
  return model.task->predict(*model.module, prepared);
}

}  // namespace lockstep::train
