// The weights of a module, by name, to and from a file.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/global/distribute_module.h>
#include <lockstep/train/checkpoint/checkpoint_weights.h>
#include <lockstep/train/checkpoint/saved_run.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/pth/archive.h>
#include <lockstep/train/pth/load.h>
#include <lockstep/train/weights/safetensors.h>
#include <lockstep/train/weights/safetensors_stream.h>
#include <lockstep/train/weights/weight_differences.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <vector>

namespace lockstep::train {
namespace {

constexpr std::size_t kMostInError = 10, kMostInLog = 1000;

TensorMap state_of(const torch::nn::Module& module) {
  TensorMap state;
  for (auto& [name, tensor] : module_state(module)) state.emplace(name, tensor);
  return state;
}

std::vector<std::string> names_of(const TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

bool is_left_out(const std::string& name, const WeightNames& names) {
  return std::ranges::any_of(names.except, [&](const auto& pattern) { return fits(name, pattern); });
}

WeightsFormat format_of(const std::filesystem::path& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return WeightsFormat::safetensors;  // whose reader says so
  std::string begin(16, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return weights_format(begin);
}

/// Whether these are not weights alone, but a whole checkpoint of a run.
bool is_checkpoint(const std::filesystem::path& path, WeightsFormat format) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return true;
  return format == WeightsFormat::safetensors && SafetensorsReader(path).header().metadata.contains(kRunVersionKey);
}

/// The file's tensors under its names. Adds to `remarks` what was chosen and left out.
TensorMap read_tensors(const std::filesystem::path& path, bool average, std::vector<std::string>& remarks) {
  const auto format = format_of(path);
  if (is_checkpoint(path, format)) return load_checkpoint_weights(path, average, remarks);
  if (average) {
    throw Error(
        ErrorKind::data, "load_weights",
        "this is not a checkpoint of a run, and model.weights_average (--average) takes the average in one; give "
        "a checkpoint, or leave that out for a file that is an average itself, such as ema.safetensors",
        {path.string(), 0});
  }
  switch (format) {
    case WeightsFormat::safetensors: return load_safetensors(path);
    case WeightsFormat::pth: break;
    case WeightsFormat::old_pth:
      throw Error(ErrorKind::data, "load_weights",
                  "torch.save wrote this file in its old format (before PyTorch 1.6, or with "
                  "_use_new_zipfile_serialization=False), which is not read; write it again with Python: "
                  "torch.save(torch.load(\"old.pth\", map_location=\"cpu\", weights_only=True), \"new.pth\")",
                  {path.string(), 0});
  }
  auto file = load_pth(path);
  if (!file.place.empty()) remarks.push_back(fmt::format("the weights are those under \"{}\" in the file", file.place));
  if (const auto count = file.others.size(); count > 0) {
    file.others.resize(std::min(count, kMostInError));
    remarks.push_back(fmt::format("left out, as they are not tensors ({}): {}{}", count, fmt::join(file.others, ", "),
                                  count > file.others.size() ? ", ..." : ""));
  }
  return std::move(file.tensors);
}

/// Names of the file as the module has them, but for those to be left out.
TensorMap named_as_own(const TensorMap& stored, const WeightNames& names, const std::filesystem::path& path) {
  TensorMap out;
  std::map<std::string, std::string> before;  // the file's name, by the new one
  std::vector<bool> used(names.rename.size());
  std::vector<std::string> seen;
  for (const auto& [full, tensor] : stored) {
    auto name = full.starts_with(names.prefix) ? full.substr(names.prefix.size()) : full;
    seen.push_back(name);
    for (std::size_t i = 0; i < names.rename.size(); ++i) {
      const auto changed = renamed(name, names.rename[i]);
      if (!changed) continue;
      name = *changed;
      used[i] = true;
      break;
    }
    if (is_left_out(name, names)) continue;
    if (!out.emplace(name, tensor).second) {
      throw Error(ErrorKind::data, "load_weights",
                  fmt::format("'{}' and '{}' would both be '{}'; change model.weights_prefix or model.weights_rename",
                              before[name], full, name),
                  {path.string(), 0});
    }
    before.emplace(name, full);
  }
  const auto has_prefix = [&](const auto& item) { return item.first.starts_with(names.prefix); };
  if (!stored.empty() && std::ranges::none_of(stored, has_prefix)) {
    throw Error(ErrorKind::data, "load_weights",
                fmt::format("model.weights_prefix is '{}', and no name in the file begins with it; they are {}{}; "
                            "remove it, or give the beginning that they have",
                            names.prefix, stored.begin()->first, stored.size() > 1 ? ", ..." : ""),
                {path.string(), 0});
  }
  for (std::size_t i = 0; i < names.rename.size(); ++i) {
    if (used[i]) continue;
    const auto& from = names.rename[i].from;
    throw Error(ErrorKind::data, "load_weights",
                fmt::format("model.weights_rename has '{}', and no name in the file {}{}", from,
                            from.find('*') == std::string::npos ? "begins with it" : "fits it, or an earlier rule does",
                            did_you_mean(from, seen)),
                {path.string(), 0});
  }
  return out;
}

// A pattern that fits nothing is a slip of the fingers.
void require_known(const std::vector<std::string>& except, const TensorMap& own) {
  for (const auto& pattern : except) {
    if (std::ranges::any_of(own, [&](const auto& item) { return fits(item.first, pattern); })) continue;
    fail(ErrorKind::data, "load_weights",
         "no tensor of the model is called '{}', which is to be left out of the file{}", pattern,
         did_you_mean(pattern, names_of(own)));
  }
}

}  // namespace

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path, const TensorMetadata& metadata) {
  save_safetensors(path, state_of(module), metadata);
}

std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const WeightNames& names) {
  auto own = state_of(module);
  require_known(names.except, own);
  std::erase_if(own, [&](const auto& item) { return is_left_out(item.first, names); });
  std::vector<std::string> remarks;
  const auto stored = named_as_own(read_tensors(path, names.average, remarks), names, path);
  const auto all = own;
  const auto found = compare(all, stored);
  for (const auto* left : {&found.missing, &found.unlike}) {
    for (const auto& name : *left) own.erase(name);
  }
  if (!found.none() && (names.strict || own.empty())) {
    throw Error(ErrorKind::data, "load_weights",
                fmt::format("these weights are not this model's; {}{}{}",
                            fmt::join(in_words(found, all, stored, kMostInError), "; "), advice(found, all, stored),
                            own.empty() ? "; nothing fits"
                                        : "; model.weights_strict=false takes what fits and trains the rest from "
                                          "random values"),
                {path.string(), 0});
  }
  for (auto& words : in_words(found, all, stored, kMostInLog)) remarks.push_back(std::move(words));
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : own) tensor.copy_(stored.at(name));
  return remarks;
}

}  // namespace lockstep::train
