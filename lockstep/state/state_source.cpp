// Reads of boxes of tensors from memory or from shard files, and outlines as meta tensors without values.
#include <lockstep/state/safetensors_stream.h>
#include <lockstep/state/state_source.h>
#include <lockstep/state/tensors.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

namespace lockstep::state {
namespace {

at::Tensor without_values(at::IntArrayRef sizes, at::ScalarType dtype) {
  return torch::empty(sizes, torch::TensorOptions(dtype).device(torch::kMeta));
}

}  // namespace

StateSource::StateSource(NamedTensors in_memory) : in_memory_(std::move(in_memory)) {
  for (const auto& [name, tensor] : in_memory_) {
    outline_.emplace(name, without_values(tensor.sizes(), tensor.scalar_type()));
  }
}

StateSource::StateSource(ShardReader files) : files_(std::move(files)) {
  for (const auto& [name, tensor] : files_->index().tensors) {
    outline_.emplace(name, without_values(tensor.shape, scalar_type_of(tensor.dtype)));
  }
}

NamedTensors StateSource::outline(std::string_view part) const { return part_of(outline_, part); }

void StateSource::read(const std::string& name, const Box& box, at::Tensor& into) {
  if (files_) return files_->read(name, box, into);
  auto values = in_memory_.at(name);
  for (std::size_t dim = 0; dim < box.sizes.size(); ++dim) {
    values = values.narrow(static_cast<std::int64_t>(dim), box.offset[dim], box.sizes[dim]);
  }
  into.copy_(values);
}

at::Tensor StateSource::read(const std::string& name) {
  if (!files_) return in_memory_.at(name);
  return files_->read(name, whole_box(files_->index().tensors.at(name).shape));
}

NamedTensors StateSource::read_part(std::string_view part) {
  NamedTensors tensors;
  for (const auto& [name, outline] : outline(part)) tensors.emplace(name, read(fmt::format("{}.{}", part, name)));
  return tensors;
}

}  // namespace lockstep::state
