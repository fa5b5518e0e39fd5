// The weights of a module, by name, to and from a file.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/global/module_plan.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/safetensors.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace lockstep::train {
namespace {

/// A tensor that is of another shape or type in the file.
struct Unlike {
  std::string name;
  at::Tensor stored;
  at::Tensor own;
};

/// What keeps a file's tensors from being a module's.
struct Differences {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<Unlike> unlike;

  bool none() const { return missing.empty() && unexpected.empty() && unlike.empty(); }
};

std::string outline(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

bool alike(const at::Tensor& own, const at::Tensor& stored) {
  const bool convertible = own.is_floating_point() && stored.is_floating_point();
  return own.sizes() == stored.sizes() && (convertible || own.scalar_type() == stored.scalar_type());
}

Differences compare(const TensorMap& own, const TensorMap& stored) {
  Differences found;
  for (const auto& [name, tensor] : own) {
    const auto other = stored.find(name);
    if (other == stored.end()) {
      found.missing.push_back(name);
    } else if (!alike(tensor, other->second)) {
      found.unlike.push_back({name, other->second, tensor});
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

std::string list(std::string_view title, std::vector<std::string> items) {
  constexpr std::size_t kMostShown = 10;
  if (items.empty()) return "";
  const auto count = items.size();
  items.resize(std::min(count, kMostShown));
  return fmt::format("; {} ({}): {}{}", title, count, fmt::join(items, ", "), count > kMostShown ? ", ..." : "");
}

std::vector<std::string> in_words(const std::vector<Unlike>& unlike) {
  std::vector<std::string> words;
  for (const auto& [name, stored, own] : unlike) {
    words.push_back(fmt::format("{} is {} in the file, {} in the module", name, outline(stored), outline(own)));
  }
  return words;
}

// What all names in the file begin with, if most of the module's names are there behind it.
std::optional<std::string> find_prefix(const TensorMap& own, const TensorMap& stored) {
  if (own.empty() || stored.empty()) return std::nullopt;
  const auto& first = stored.begin()->first;
  for (auto dot = first.find('.'); dot != std::string::npos; dot = first.find('.', dot + 1)) {
    const auto prefix = first.substr(0, dot + 1);
    if (!std::ranges::all_of(stored, [&](const auto& item) { return item.first.starts_with(prefix); })) break;
    const auto found =
        std::ranges::count_if(own, [&](const auto& item) { return stored.contains(prefix + item.first); });
    if (2 * static_cast<std::size_t>(found) > own.size()) return prefix;
  }
  return std::nullopt;
}

// The first size in the file, where that is all in which some tensors differ: the last layer of a model with other
// classes.
std::optional<std::int64_t> classes_in_file(const std::vector<Unlike>& unlike) {
  const auto sizes = unlike.front().stored.sizes();
  if (sizes.empty()) return std::nullopt;
  const auto of_another_head = [&](const Unlike& each) {
    return each.stored.dim() == each.own.dim() && each.stored.dim() > 0 && each.stored.size(0) == sizes[0] &&
           each.own.size(0) == unlike.front().own.size(0) && each.stored.sizes().slice(1) == each.own.sizes().slice(1);
  };
  return std::ranges::all_of(unlike, of_another_head) ? std::optional(sizes[0]) : std::nullopt;
}

std::string advice(const TensorMap& own, const TensorMap& stored, const Differences& found) {
  if (const auto prefix = find_prefix(own, stored)) {
    return fmt::format("; all names in the file begin with '{0}'{1}: set model.weights_prefix={0}", *prefix,
                       *prefix == "module." ? ", as Python's DistributedDataParallel saves them" : "");
  }
  if (!found.missing.empty() || !found.unexpected.empty()) return "";
  std::vector<std::string> names;
  for (const auto& each : found.unlike) names.push_back(each.name);
  const auto classes = classes_in_file(found.unlike);
  return fmt::format(
      "; to begin with random values there and take the rest from the file, set model.weights_except=[{}]{}",
      fmt::join(names, ", "), classes ? fmt::format(", or take all of it with model.num_classes={}", *classes) : "");
}

// What is left of `tensors` when names are as the module has them.
TensorMap selected(TensorMap tensors, std::string_view prefix, const std::vector<std::string>& except) {
  TensorMap out;
  for (auto& [name, tensor] : tensors) {
    const auto own = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    if (std::ranges::none_of(except, [&](const auto& pattern) { return fits(own, pattern); })) out.emplace(own, tensor);
  }
  return out;
}

// A pattern that fits nothing is a slip of the fingers.
void require_known(const std::vector<std::string>& except, const TensorMap& own) {
  for (const auto& pattern : except) {
    if (std::ranges::any_of(own, [&](const auto& item) { return fits(item.first, pattern); })) continue;
    std::vector<std::string> names;
    for (const auto& [name, tensor] : own) names.push_back(name);
    fail(ErrorKind::data, "load_weights",
         "no tensor of the model is called '{}', which is to be left out of the file{}", pattern,
         did_you_mean(pattern, names));
  }
}

}  // namespace

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path, const TensorMetadata& metadata) {
  save_safetensors(path, state_of(module), metadata);
}

void load_weights(torch::nn::Module& module, const std::filesystem::path& path, const WeightNames& names) {
  auto own = state_of(module);
  require_known(names.except, own);
  own = selected(std::move(own), "", names.except);
  const auto stored = selected(load_safetensors(path), names.prefix, names.except);
  const auto found = compare(own, stored);
  if (!found.none()) {
    throw Error(ErrorKind::data, "load_weights",
                fmt::format("these weights are not this model's{}{}{}{}", list("missing in the file", found.missing),
                            list("unknown to the model", found.unexpected),
                            list("of another shape or type", in_words(found.unlike)), advice(own, stored, found)),
                {path.string(), 0});
  }
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : own) tensor.copy_(stored.at(name));
}

}  // namespace lockstep::train
