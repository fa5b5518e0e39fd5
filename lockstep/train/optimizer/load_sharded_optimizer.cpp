// load_sharded_optimizer: the tensors of an optimizer's state, found by the names of its parameters.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/sharded/checkpoint.h>

#include <fmt/format.h>
#include <torch/torch.h>

namespace lockstep::train {
namespace {

NamedTensors optimizer_tensors_in(const ShardedIndex& index, const std::string& prefix,
                                  const torch::optim::Optimizer& optimizer, const NamedParameters& parameters) {
  NamedTensors state;
  for (const auto& [name, parameter] : parameters) {
    for (const auto& field : remembered_tensors(optimizer)) {
      const auto key = fmt::format("{}{}.{}", prefix, name, field);
      if (index.tensors.contains(key)) state.emplace(key, torch::zeros_like(parameter));
    }
    const auto key = fmt::format("{}{}.{}", prefix, name, kRememberedStep);
    if (index.tensors.contains(key)) state.emplace(key, torch::zeros({}, torch::kLong));
  }
  return state;
}

}  // namespace

void load_sharded_optimizer(const std::filesystem::path& folder, const std::string& prefix,
                            torch::optim::Optimizer& optimizer, const NamedParameters& parameters) {
  const torch::NoGradGuard no_grad;
  const auto mesh = mesh_of_tensors({parameters.begin(), parameters.end()});
  const Group* group = mesh ? &mesh->group() : nullptr;
  const auto index = shared_index(folder, group);
  const auto tensors = optimizer_tensors_in(index, prefix, optimizer, parameters);
  for (auto saved = index.tensors.lower_bound(prefix); saved != index.tensors.end() && saved->first.starts_with(prefix);
       ++saved) {
    if (tensors.contains(saved->first)) continue;
    throw Error(ErrorKind::data, "sharded checkpoint",
                fmt::format("it holds \"{}\", for which this optimizer has no place; load with the parameters and the "
                            "kind of optimizer that were saved",
                            saved->first),
                {(folder / kIndexName).string(), 0});
  }
  fill_all(folder, index, tensors, group);
  NamedTensors state;
  for (const auto& [key, tensor] : tensors) state.emplace(key.substr(prefix.size()), tensor);
  load_optimizer_state(optimizer, parameters, state);
}

}  // namespace lockstep::train
