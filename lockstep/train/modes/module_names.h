// The names of a module's parameters and buffers.
#pragma once

#include <lockstep/train/named_tensors.h>

#include <string>
#include <vector>

namespace lockstep::train {

inline std::vector<std::string> names_in(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module_state(module)) names.push_back(name);
  return names;
}

}  // namespace lockstep::train
