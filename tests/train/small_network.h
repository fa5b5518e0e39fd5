// A network of a few numbers, and its tensors by name, for tests of files of weights.
#pragma once

#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

namespace lockstep::test {

inline torch::nn::Sequential small_network() {
  return torch::nn::Sequential(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
}

inline state::NamedTensors state_of(const torch::nn::Module& module) {
  state::NamedTensors state;
  for (const auto& [name, tensor] : train::module_state(module)) state.emplace(name, tensor);
  return state;
}

}  // namespace lockstep::test
