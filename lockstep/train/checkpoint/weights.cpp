// The weights of a module, by name: its state as named tensors (collection, comparison, copy back), and weights to and
// from a file.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/tensors.h>
#include <lockstep/state/weights_file.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/checkpoint/weight_differences.h>
#include <lockstep/train/keys/parameter_names.h>
#include <lockstep/train/named_tensors.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {
namespace {

void append(NamedTensors& out, const torch::OrderedDict<std::string, at::Tensor>& items) {
  for (const auto& item : items) out.emplace(item.key(), item.value());
}

}  // namespace

NamedTensors module_state(const torch::nn::Module& module) {
  NamedTensors out;
  append(out, module.named_parameters());
  append(out, module.named_buffers());
  return out;
}

void require_module_state(const torch::nn::Module& module, const NamedTensors& state) {
  const auto own = module_state(module);
  for (const auto& [name, tensor] : state) {
    if (!own.contains(name)) fail(ErrorKind::data, "model state", "the saved state holds {}, the model does not", name);
  }
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found == state.end())
      fail(ErrorKind::data, "model state", "the model holds {}, the saved state does not", name);
    const auto& value = found->second;
    if (value.sizes() != tensor.sizes() || value.scalar_type() != tensor.scalar_type()) {
      fail(ErrorKind::data, "model state", "{} is {} in the saved state and {} in the model", name,
           dtype_and_sizes(value), dtype_and_sizes(tensor));
    }
  }
}

void load_module_state(torch::nn::Module& module, const NamedTensors& state) {
  const torch::NoGradGuard no_grad;
  require_module_state(module, state);
  for (auto& [name, tensor] : module_state(module)) at::Tensor(tensor).copy_(state.at(name));
}

std::string params_sha256(const torch::nn::Module& module) { return sha256_of(module_state(module)); }

namespace {

constexpr std::size_t kMostInError = 10, kMostInLog = 1000;

NamedTensors state_of(const torch::nn::Module& module) {
  NamedTensors state;
  for (auto& [name, tensor] : module_state(module)) state.emplace(name, tensor);
  return state;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

bool is_left_out(const std::string& name, const WeightNames& names) {
  return std::ranges::any_of(names.except, [&](const auto& pattern) { return fits(name, pattern); });
}

/// The module's names for names of the file, except names to leave out.
class NamesInFile {
 public:
  NamesInFile(const WeightNames& names, const std::vector<Rename>& theirs, const NamedTensors& own,
              const std::filesystem::path& path)
      : names_(names), theirs_(theirs), own_(own), path_(path), used_(names.rename.size()) {}

  /// nullopt: the tensor must be left out.
  std::optional<std::string> as_own(const std::string& full) {
    auto name = full.starts_with(names_.prefix) ? full.substr(names_.prefix.size()) : full;
    seen_.push_back(name);
    for (std::size_t i = 0; i < names_.rename.size(); ++i) {
      const auto changed = renamed(name, names_.rename[i]);
      if (!changed) continue;
      name = *changed;
      used_[i] = true;
      break;
    }
    if (is_left_out(name, names_)) return std::nullopt;
    if (auto ours = known_otherwise(name)) {
      if (is_left_out(*ours, names_)) return std::nullopt;
      if (changed_++ == 0) example_ = fmt::format("'{}' as '{}'", name, *ours);
      name = *ours;
    }
    return name;
  }

  void require_used(const NamedTensors& stored) const {
    const auto has_prefix = [&](const auto& item) { return item.first.starts_with(names_.prefix); };
    if (!stored.empty() && std::ranges::none_of(stored, has_prefix)) {
      throw Error(ErrorKind::data, "load_weights",
                  fmt::format("model.weights_prefix is '{}', and no name in the file begins with it; they are {}{}; "
                              "remove it, or give the beginning that they have",
                              names_.prefix, stored.begin()->first, stored.size() > 1 ? ", ..." : ""),
                  {path_.string(), 0});
    }
    for (std::size_t i = 0; i < names_.rename.size(); ++i) {
      if (used_[i]) continue;
      const auto& from = names_.rename[i].from;
      const bool is_beginning = from.find('*') == std::string::npos;
      throw Error(
          ErrorKind::data, "load_weights",
          fmt::format("model.weights_rename has '{}', and no name in the file {}{}", from,
                      is_beginning ? "begins with it" : "fits it, or an earlier rule does", did_you_mean(from, seen_)),
          {path_.string(), 0});
    }
  }

  /// The tensors that were read under another name than the file's.
  std::optional<std::string> remark() const {
    if (changed_ == 0) return std::nullopt;
    return fmt::format("names of another framework ({}): {}{}", changed_, example_, changed_ > 1 ? ", ..." : "");
  }

 private:
  /// The module's name of a tensor that another framework calls `name`, where the module has none of that name.
  std::optional<std::string> known_otherwise(const std::string& name) const {
    if (has(name)) return std::nullopt;
    const auto in_torchs_words = [&](const std::string& each) -> std::optional<std::string> {
      if (has(each)) return each;
      auto words = from_mindspore(each);
      return words && has(*words) ? words : std::nullopt;
    };
    if (auto words = in_torchs_words(name)) return words;
    for (const auto& rule : theirs_) {
      const auto changed = renamed(name, rule);
      if (!changed) continue;
      if (auto words = in_torchs_words(*changed)) return words;
    }
    return std::nullopt;
  }

  bool has(const std::string& name) const { return own_.contains(name) || is_left_out(name, names_); }

  const WeightNames& names_;
  const std::vector<Rename>& theirs_;
  const NamedTensors& own_;
  const std::filesystem::path& path_;
  std::vector<bool> used_;  // rules of names_.rename
  std::vector<std::string> seen_;
  std::size_t changed_ = 0;
  std::string example_;
};

/// The file's tensors under the module's names.
NamedTensors named_as_own(const NamedTensors& stored, NamesInFile& names, const std::filesystem::path& path) {
  NamedTensors out;
  std::map<std::string, std::string> before;  // the file's name, by the new one
  for (const auto& [full, tensor] : stored) {
    const auto name = names.as_own(full);
    if (!name) continue;
    if (!out.emplace(*name, tensor).second) {
      throw Error(ErrorKind::data, "load_weights",
                  fmt::format("'{}' and '{}' would both be '{}'; change model.weights_prefix or model.weights_rename",
                              before[*name], full, *name),
                  {path.string(), 0});
    }
    before.emplace(*name, full);
  }
  names.require_used(stored);
  return out;
}

/// "left out, as they are not tensors that are read (3): epoch (a number), ...", if there are any.
void remark_others(const WeightsFile& file, std::vector<std::string>& remarks) {
  if (file.others.empty()) return;
  std::vector<std::string> shown;
  for (const auto& [name, what] : file.others) {
    if (shown.size() < kMostInError) shown.push_back(fmt::format("{} ({})", cut_text(name), what));
  }
  remarks.push_back(fmt::format("left out, as they are not tensors that are read ({}): {}{}", file.others.size(),
                                fmt::join(shown, ", "), file.others.size() > shown.size() ? ", ..." : ""));
}

/// Entries of the file for the missing tensors that are not read: "; '0.weight' is there as ...".
std::string others_among(const std::vector<std::string>& missing, const WeightsFile& file, NamesInFile names) {
  std::map<std::string, std::string> what;
  for (const auto& [full, kind] : file.others) {
    if (const auto name = names.as_own(full)) what.emplace(*name, kind);
  }
  std::string text;
  std::size_t count = 0;
  for (const auto& name : missing) {
    const auto found = what.find(name);
    if (found == what.end() || ++count > kMostInError) continue;
    text += fmt::format("; '{}' is there, and is {}, which is not read", name, found->second);
  }
  return text;
}

/// No layer here uses the batch counts of batch norms, and other or older programs do not save them.
bool is_count_of_batches(const std::string& name) {
  constexpr std::string_view kCount = "num_batches_tracked";
  return name == kCount || name.ends_with("." + std::string(kCount));
}

// A pattern without a match is a typing error.
void require_known(const std::vector<std::string>& except, const NamedTensors& own) {
  for (const auto& pattern : except) {
    if (std::ranges::any_of(own, [&](const auto& item) { return fits(item.first, pattern); })) continue;
    fail(ErrorKind::data, "load_weights",
         "no tensor of the model is called '{}', which is to be left out of the file{}", pattern,
         did_you_mean(pattern, names_of(own)));
  }
}

constexpr const char* kRandomMeasured =
    "; results of a model with random values there are worthless: give the configuration that the weights were trained "
    "with, such as config.yaml in the folder of their run";

/// Error(data) where the configuration leaves tensors of a model that is measured at random values.
void require_none_left_out(const NamedTensors& own, const WeightNames& names, const std::filesystem::path& path) {
  std::vector<std::string> left;
  for (const auto& [name, tensor] : own) {
    if (is_left_out(name, names)) left.push_back(name);
  }
  if (left.empty()) return;
  const auto count = left.size();
  left.resize(std::min(count, kMostInError));
  throw Error(ErrorKind::data, "load_weights",
              fmt::format("model.weights_except leaves out {} tensors: {}{}{}", count, fmt::join(left, ", "),
                          count > left.size() ? ", ..." : "", kRandomMeasured),
              {path.string(), 0});
}

/// Of a model that is measured: NaN among its parameters makes every number that it gives worthless. Buffers may hold
/// infinities, as masks of attention do.
void require_finite(const torch::nn::Module& module, const std::filesystem::path& path) {
  for (const auto& parameter : module.named_parameters()) {
    const auto& values = parameter.value();
    if (!values.is_floating_point()) continue;
    const auto wrong = values.numel() - at::isfinite(values).sum().item<std::int64_t>();
    if (wrong == 0) continue;
    throw Error(ErrorKind::data, "load_weights",
                fmt::format("{} of the {} values of {} are NaN or infinite, so that no result of this model means "
                            "anything; give weights of an earlier step, or find out what the training did",
                            wrong, values.numel(), parameter.key()),
                {path.string(), 0});
  }
}

}  // namespace

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path, const SavedMetadata& metadata) {
  save_safetensors(path, state_of(module), metadata);
}

std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& given,
                                      const WeightNames& names) {
  const auto path = names.average ? checkpoint_of_run(given) : weights_of_run(given);
  auto own = state_of(module);
  require_known(names.except, own);
  auto theirs = names.theirs;
  if (const auto* knows = dynamic_cast<const KnowsOtherNames*>(&module)) {
    for (auto& rule : knows->other_names()) theirs.push_back(std::move(rule));
  }
  auto file = read_weights_file(path, names.key, names.average);
  auto remarks = std::move(file.remarks);
  if (path != given) remarks.push_back(fmt::format("of the run in {}: {}", given.string(), path.string()));
  NamesInFile in_file(names, theirs, own, path);
  const auto stored = named_as_own(file.tensors, in_file, path);
  remark_others(file, remarks);
  if (auto remark = in_file.remark()) remarks.push_back(std::move(*remark));
  if (names.whole) require_none_left_out(own, names, path);
  std::erase_if(own, [&](const auto& item) { return is_left_out(item.first, names); });
  std::erase_if(own, [&](const auto& item) { return is_count_of_batches(item.first) && !stored.contains(item.first); });
  const auto all = own;
  const auto found = compare(all, stored);
  for (const auto* left : {&found.missing, &found.unlike}) {
    for (const auto& name : *left) own.erase(name);
  }
  const bool leaves_random = names.whole && (!found.missing.empty() || !found.unlike.empty());
  if (!found.none() && (names.strict || own.empty() || leaves_random)) {
    throw Error(ErrorKind::data, "load_weights",
                fmt::format("these weights are not this model's; {}{}{}{}",
                            fmt::join(in_words(found, all, stored, kMostInError), "; "),
                            others_among(found.missing, file, in_file), advice(found, all, stored, !names.whole),
                            own.empty()     ? "; nothing fits"
                            : leaves_random ? kRandomMeasured
                            : names.whole   ? "; model.weights_strict=false passes over what the model does not have"
                                            : "; model.weights_strict=false takes what fits and trains the rest from "
                                              "random values"),
                {path.string(), 0});
  }
  for (auto& words : in_words(found, all, stored, kMostInLog)) remarks.push_back(std::move(words));
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : own) tensor.copy_(stored.at(name));
  if (names.whole) require_finite(module, path);
  return remarks;
}

}  // namespace lockstep::train
