#include <lockstep/train/autocast.h>
#include <lockstep/train/batch_tensors.h>
#include <lockstep/train/forward.h>

namespace lockstep::train {
namespace {

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
