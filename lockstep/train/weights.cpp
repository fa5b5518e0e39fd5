// The weights of a module, by name, to and from a file.
#include <lockstep/base/error.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/safetensors.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <vector>

namespace lockstep::train {
namespace {

/// What keeps a file's tensors from being a module's.
struct Differences {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> unlike;

  bool none() const { return missing.empty() && unexpected.empty() && unlike.empty(); }
};

std::string outline(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

bool fits(const at::Tensor& own, const at::Tensor& stored) {
  const bool convertible = own.is_floating_point() && stored.is_floating_point();
  return own.sizes() == stored.sizes() && (convertible || own.scalar_type() == stored.scalar_type());
}

Differences compare(const TensorMap& own, const TensorMap& stored) {
  Differences found;
  for (const auto& [name, tensor] : own) {
    const auto other = stored.find(name);
    if (other == stored.end()) {
      found.missing.push_back(name);
    } else if (!fits(tensor, other->second)) {
      found.unlike.push_back(
          fmt::format("{} is {} in the file, {} in the module", name, outline(other->second), outline(tensor)));
    }
  }
  for (const auto& [name, tensor] : stored) {
    if (!own.contains(name)) found.unexpected.push_back(name);
  }
  return found;
}

TensorMap state_of(const torch::nn::Module& module) {
  TensorMap state;
  for (auto& [name, tensor] : module_state(module)) state.emplace(name, tensor);
  return state;
}

std::string list(std::string_view title, const std::vector<std::string>& items) {
  return items.empty() ? "" : fmt::format("; {} ({}): {}", title, items.size(), fmt::join(items, ", "));
}

}  // namespace

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path, const TensorMetadata& metadata) {
  save_safetensors(path, state_of(module), metadata);
}

void load_weights(torch::nn::Module& module, const std::filesystem::path& path) {
  const auto stored = load_safetensors(path);
  auto own = state_of(module);
  const auto found = compare(own, stored);
  if (!found.none()) {
    throw Error(
        ErrorKind::data, "load_weights",
        fmt::format("these weights are not this model's{}{}{}", list("missing in the file", found.missing),
                    list("unknown to the model", found.unexpected), list("of another shape or type", found.unlike)),
        {path.string(), 0});
  }
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : own) tensor.copy_(stored.at(name));
}

}  // namespace lockstep::train
