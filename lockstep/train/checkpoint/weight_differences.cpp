// The comparison of tensor names, shapes and dtypes of file and module, with advice such as a prefix to remove.
#include <lockstep/state/tensors.h>
#include <lockstep/train/checkpoint/weight_differences.h>

#include <lockstep/base/nearest.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace lockstep::train {
namespace {

// Limits for the comparison of a file's names with missing names: their number, their length, and the total number of
// comparisons. More would take long without a benefit.
constexpr std::size_t kMostCompared = 1000, kLongestCompared = 100, kMostComparisons = 100'000;

bool alike(const at::Tensor& own, const at::Tensor& stored) {
  const bool convertible = own.is_floating_point() && stored.is_floating_point();
  return own.sizes() == stored.sizes() && (convertible || own.scalar_type() == stored.scalar_type());
}

/// "title (12): a, b, ..."
std::string list(std::string_view title, std::size_t count, const std::vector<std::string>& shown) {
  return fmt::format("{} ({}): {}{}", title, count, fmt::join(shown, ", "), count > shown.size() ? ", ..." : "");
}

/// The first `most` names, each formatted by `word`.
template <typename Word>
std::vector<std::string> first_of(const std::vector<std::string>& names, std::size_t most, const Word& word) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) words.push_back(word(names[i]));
  return words;
}

std::vector<std::string> to_compare(const std::vector<std::string>& names) {
  std::vector<std::string> some;
  for (const auto& name : names) {
    if (name.size() <= kLongestCompared && some.size() < kMostCompared) some.push_back(name);
  }
  return some;
}

/// For each prefix, the number of names that equal a name of the other side without that prefix.
using Beginnings = std::map<std::string, std::size_t>;

// Considers names that the other side does not have.
Beginnings beginnings_of(const NamedTensors& names, const NamedTensors& others) {
  Beginnings found;
  std::size_t looked_at = 0;
  for (const auto& [name, tensor] : names) {
    if (others.contains(name) || name.size() > kLongestCompared || ++looked_at > kMostComparisons) continue;
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      if (!others.contains(std::string_view(name).substr(dot + 1))) continue;
      ++found[name.substr(0, dot + 1)];
      break;
    }
  }
  return found;
}

std::size_t common_names(const NamedTensors& own, const NamedTensors& stored) {
  return static_cast<std::size_t>(
      std::ranges::count_if(own, [&](const auto& item) { return stored.contains(item.first); }));
}

// The prefix of names in the file, if it has most of the module's names with or without the prefix.
std::optional<std::string> advice_for_beginnings(const NamedTensors& own, const NamedTensors& stored) {
  constexpr std::size_t kMostRules = 4;
  const auto in_file = beginnings_of(stored, own);
  auto found = common_names(own, stored);
  for (const auto& [beginning, count] : in_file) found += count;
  if (in_file.empty() || in_file.size() > kMostRules || 2 * found <= own.size()) return std::nullopt;
  const auto& first = in_file.begin()->first;
  if (in_file.size() == 1) {
    const bool all = std::ranges::all_of(stored, [&](const auto& item) { return item.first.starts_with(first); });
    return fmt::format("; {} in the file begin with '{}'{}: set model.weights_prefix={}",
                       all ? "all names" : fmt::format("{} names", in_file.begin()->second), first,
                       first == "module." ? ", as Python's DistributedDataParallel saves them" : "", first);
  }
  std::vector<std::string> rules;
  for (const auto& [beginning, count] : in_file) rules.push_back(fmt::format("{}: \"\"", beginning));
  std::ranges::reverse(rules);  // of two with a common beginning the longer first: the first match counts
  return fmt::format("; names in the file have beginnings that the model's do not: set 'model.weights_rename={{{}}}'",
                     fmt::join(rules, ", "));
}

// The same for names of the module.
std::optional<std::string> advice_for_own_beginning(const NamedTensors& own, const NamedTensors& stored) {
  const auto of_module = beginnings_of(own, stored);
  if (of_module.size() != 1) return std::nullopt;
  const auto& [beginning, count] = *of_module.begin();
  if (2 * (count + common_names(own, stored)) <= own.size()) return std::nullopt;
  return fmt::format(
      "; the model's names begin with '{0}', and those in the file do not: set "
      "'model.weights_rename={{\"*\": \"{0}*\"}}'",
      beginning);
}

// The first size in the file, if some tensors differ only in it: the last layer of a model with other classes.
std::optional<std::int64_t> classes_in_file(const std::vector<std::string>& unlike, const NamedTensors& own,
                                            const NamedTensors& stored) {
  const auto sizes = stored.at(unlike.front()).sizes();
  const auto own_sizes = own.at(unlike.front()).sizes();
  if (sizes.empty() || own_sizes.empty()) return std::nullopt;
  const auto of_another_head = [&](const std::string& name) {
    const auto theirs = stored.at(name).sizes();
    const auto ours = own.at(name).sizes();
    return theirs.size() == ours.size() && !theirs.empty() && theirs[0] == sizes[0] && ours[0] == own_sizes[0] &&
           theirs.slice(1) == ours.slice(1);
  };
  return std::ranges::all_of(unlike, of_another_head) ? std::optional(sizes[0]) : std::nullopt;
}

}  // namespace

WeightDifferences compare(const NamedTensors& own, const NamedTensors& stored) {
  WeightDifferences found;
  for (const auto& [name, tensor] : own) {
    const auto other = stored.find(name);
    if (other == stored.end()) {
      found.missing.push_back(name);
    } else if (!alike(tensor, other->second)) {
      found.unlike.push_back(name);
    }
  }
  for (const auto& [name, tensor] : stored) {
    if (!own.contains(name)) found.unexpected.push_back(name);
  }
  return found;
}

std::vector<std::string> in_words(const WeightDifferences& found, const NamedTensors& own, const NamedTensors& stored,
                                  std::size_t most) {
  std::vector<std::string> words;
  if (!found.missing.empty()) {
    const auto others = to_compare(found.unexpected);
    auto left = kMostComparisons;
    words.push_back(
        list("missing in the file", found.missing.size(), first_of(found.missing, most, [&](const std::string& name) {
               if (left < others.size() || name.size() > kLongestCompared) return name;
               left -= others.size();
               const auto near = nearest(name, others);
               return near ? fmt::format("{} (near it in the file: {})", name, *near) : name;
             })));
  }
  if (!found.unexpected.empty()) {
    words.push_back(list("unknown to the model", found.unexpected.size(),
                         first_of(found.unexpected, most, [](const std::string& name) { return name; })));
  }
  if (!found.unlike.empty()) {
    words.push_back(list(
        "of another shape or type", found.unlike.size(), first_of(found.unlike, most, [&](const std::string& name) {
          return fmt::format("{} is {} in the file, {} in the module", name, state::dtype_and_sizes(stored.at(name)),
                             state::dtype_and_sizes(own.at(name)));
        })));
  }
  return words;
}

std::string advice(const WeightDifferences& found, const NamedTensors& own, const NamedTensors& stored,
                   bool may_be_random) {
  if (auto words = advice_for_beginnings(own, stored)) return *words;
  if (auto words = advice_for_own_beginning(own, stored)) return *words;
  if (!found.missing.empty() || !found.unexpected.empty()) {
    return found.missing.empty() || found.unexpected.empty()
               ? ""
               : "; where only names differ, change them with model.weights_rename";
  }
  const auto classes = classes_in_file(found.unlike, own, stored);
  if (!may_be_random) return classes ? fmt::format("; the file is of model.num_classes={}", *classes) : "";
  return fmt::format(
      "; to begin with random values there and take the rest from the file, set model.weights_except=[{}]{}",
      fmt::join(found.unlike, ", "),
      classes ? fmt::format(", or take all of it with model.num_classes={}", *classes) : "");
}

}  // namespace lockstep::train
