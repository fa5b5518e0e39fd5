// Frozen parameters: requires_grad off by name pattern, and their removal from a loaded optimizer state.
#include <lockstep/train/keys/name_patterns.h>
#include <lockstep/train/optimizer/freeze.h>

#include <torch/torch.h>

#include <algorithm>
#include <set>

namespace lockstep::train {

void freeze_parameters(const torch::nn::Module& module, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  constexpr std::string_view kKey = "model.freeze";
  const auto parameters = module.named_parameters();
  require_matches(patterns, parameters.keys(), kKey);
  for (const auto& parameter : parameters) {
    if (fits_any(parameter.key(), patterns)) at::Tensor(parameter.value()).requires_grad_(false);
  }
  if (std::ranges::any_of(parameters, [](const auto& each) { return each.value().requires_grad(); })) return;
  fail(ErrorKind::config, "config",
       "{}: all {} parameters of the model are frozen, so there is nothing to train; freeze fewer", kKey,
       parameters.size());
}

NamedTensors without_frozen(NamedTensors optimizer_state, const torch::nn::Module& module) {
  std::set<std::string, std::less<>> frozen;
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.value().requires_grad()) frozen.insert(parameter.key());
  }
  std::erase_if(optimizer_state, [&](const auto& each) {
    return frozen.contains(std::string_view(each.first).substr(0, each.first.rfind('.')));
  });
  return optimizer_state;
}

}  // namespace lockstep::train
