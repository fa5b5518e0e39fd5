#include <lockstep/kernels/channels_last.h>
#include <lockstep/train/batch_tensors.h>

#include <torch/torch.h>

namespace lockstep::train {
namespace {

at::Tensor over(void* memory, at::IntArrayRef shape, at::ScalarType dtype, const std::shared_ptr<data::Batch>& owner) {
  return torch::from_blob(
      memory, shape, [owner](void*) {}, torch::TensorOptions(dtype));
}

}  // namespace

BatchTensors to_tensors(const std::shared_ptr<data::Batch>& batch, const c10::Device& device, bool channels_last) {
  const auto& shape = batch->shape;
  auto pictures =
      over(batch->pixels.data(), {batch->count, shape.channels, shape.height, shape.width}, torch::kFloat, batch);
  auto labels = over(batch->labels.data(), {batch->count}, torch::kLong, batch);
  if (channels_last) pictures = to_channels_last(pictures);
  return {pictures.to(device), labels.to(device)};
}

}  // namespace lockstep::train
