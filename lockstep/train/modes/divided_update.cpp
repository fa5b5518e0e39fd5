// Copies of parameters divided along the data axes, with redistributions before and after the optimizer step.
#include <lockstep/global/global_tensor.h>
#include <lockstep/train/modes/divided_update.h>

#include <torch/torch.h>

#include <utility>

namespace lockstep::train {
namespace {

Placements divided(const at::Tensor& parameter, const MeshLayout& layout) {
  auto placements = placements_of(parameter);
  std::int64_t ranks = 1;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    const bool free = is_data_axis(layout.names[axis]) && placements[axis].is_replicate();
    if (free || placements[axis].is_shard(0)) ranks *= layout.sizes[axis];
  }
  if (parameter.dim() == 0 || parameter.size(0) < ranks) return placements;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (is_data_axis(layout.names[axis]) && placements[axis].is_replicate()) placements[axis] = Shard(0);
  }
  return placements;
}

}  // namespace

DividedUpdate::DividedUpdate(NamedParameters parameters, const MeshLayout& layout)
    : parameters_(std::move(parameters)) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters_) {
    const auto placements = divided(parameter, layout);
    const bool whole = placements == placements_of(parameter);
    // A copy: the part must not share memory with parameters that backward reads.
    parts_.emplace_back(name, whole ? parameter : redistribute(parameter.detach(), placements).clone());
  }
}

void DividedUpdate::take_gradients() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& parameter = parameters_[i].second;
    auto& part = parts_[i].second;
    if (part.is_same(parameter)) continue;
    part.mutable_grad() =
        parameter.grad().defined() ? redistribute(parameter.grad(), placements_of(part)) : at::Tensor();
  }
}

void DividedUpdate::share() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    auto parameter = parameters_[i].second;
    auto& part = parts_[i].second;
    if (part.is_same(parameter) || !part.grad().defined()) continue;
    parameter.copy_(redistribute(part, placements_of(parameter)));
    part.mutable_grad() = at::Tensor();
  }
}

void DividedUpdate::take_values() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& parameter = parameters_[i].second;
    auto& part = parts_[i].second;
    if (!part.is_same(parameter)) part.copy_(redistribute(parameter, placements_of(part)));
  }
}

}  // namespace lockstep::train
