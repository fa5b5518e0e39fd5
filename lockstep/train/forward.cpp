#include <lockstep/kernels/channels_last.h>
#include <lockstep/train/autocast.h>
#include <lockstep/train/forward.h>

#include <torch/torch.h>

namespace lockstep::train {
namespace {

struct BatchTensors {
  at::Tensor pictures;  ///< float32 [N, C, H, W]
  at::Tensor labels;    ///< int64 [N]
};

at::Tensor over(void* memory, at::IntArrayRef shape, at::ScalarType dtype, const std::shared_ptr<data::Batch>& owner) {
  return torch::from_blob(
      memory, shape, [owner](void*) {}, torch::TensorOptions(dtype));
}

/// Makes tensors that share the batch's memory and keep it alive; moves them to `device` if that is another one.
/// `channels_last` copies the pictures into that memory format. The batch must not be empty.
BatchTensors to_tensors(const std::shared_ptr<data::Batch>& batch, const c10::Device& device, bool channels_last) {
  const auto& shape = batch->shape;
  auto pictures =
      over(batch->pixels.data(), {batch->count, shape.channels, shape.height, shape.width}, torch::kFloat, batch);
  auto labels = over(batch->labels.data(), {batch->count}, torch::kLong, batch);
  if (channels_last) pictures = to_channels_last(pictures);
  return {pictures.to(device), labels.to(device)};
}

at::Tensor logits_of(const models::Classifier& model, const at::Tensor& pictures, const ForwardOptions& options) {
  const Bfloat16Autocast autocast(options.bfloat16, options.device.is_cuda());
  return model.forward(pictures);
}

}  // namespace

ForwardOptions forward_options(const RunConfig& config, const c10::Device& device) {
  return {config.loss.name == "cross_entropy_expand" ? LossKind::cross_entropy_expand : LossKind::cross_entropy,
          config.loss.label_smoothing, config.model.channels_last, config.model.autocast == "bfloat16", device};
}

ForwardResult forward(const models::Classifier& model, const std::shared_ptr<data::Batch>& batch,
                      const ForwardOptions& options) {
  auto [pictures, labels] = to_tensors(batch, options.device, options.channels_last);
  if (options.place) {
    pictures = options.place(pictures);
    labels = options.place(labels);
  }
  const auto logits = logits_of(model, pictures, options);
  return {logits, labels, classification_loss(options.loss, logits, labels, options.label_smoothing)};
}

at::Tensor forward_nothing(const models::Classifier& model, const std::shared_ptr<data::Batch>& batch,
                           const ForwardOptions& options) {
  return logits_of(model, to_tensors(batch, options.device, options.channels_last).pictures, options).sum();
}

}  // namespace lockstep::train
