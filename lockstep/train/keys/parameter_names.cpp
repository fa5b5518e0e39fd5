// Matches of patterns against names of parameters, with an error for a pattern that matches none; rename rules with *
// as wildcard, matched from the left; the translation of MindSpore's names.
#include <lockstep/base/nearest.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/train/keys/parameter_names.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::train {
namespace {

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMostShown = 20;
  const auto shown = std::min(names.size(), kMostShown);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < names.size() ? fmt::format(", ... ({} in all)", names.size()) : "");
}

/// The parts between the stars: one more than there are stars.
std::vector<std::string_view> between_stars(std::string_view pattern) {
  std::vector<std::string_view> parts;
  for (auto star = pattern.find('*'); star != std::string_view::npos; star = pattern.find('*')) {
    parts.push_back(pattern.substr(0, star));
    pattern.remove_prefix(star + 1);
  }
  parts.push_back(pattern);
  return parts;
}

/// The text for each star. The first position of each part is always sufficient, because it leaves the most room for
/// the following parts.
std::optional<std::vector<std::string_view>> match(std::string_view name, const std::vector<std::string_view>& parts) {
  if (!name.starts_with(parts.front())) return std::nullopt;
  name.remove_prefix(parts.front().size());
  if (!name.ends_with(parts.back())) return std::nullopt;
  name.remove_suffix(parts.back().size());
  std::vector<std::string_view> found;
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    const auto at = name.find(parts[i]);
    if (at == std::string_view::npos) return std::nullopt;
    found.push_back(name.substr(0, at));
    name.remove_prefix(at + parts[i].size());
  }
  found.push_back(name);
  return found;
}

}  // namespace

bool fits_any(std::string_view name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return fits(name, pattern); });
}

void require_matches(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                     std::string_view key, const FilePosition& position) {
  for (const auto& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return fits(name, pattern); })) continue;
    const auto advice = did_you_mean(pattern, names);
    throw Error(ErrorKind::config, "config",
                fmt::format("{}: no parameter that is trained is called '{}'{}", key, pattern,
                            advice.empty() ? "; their names: " + some_of(names) : advice),
                position);
  }
}

std::optional<std::string> renamed(std::string_view name, const Rename& rule) {
  const auto parts = between_stars(rule.from);
  if (parts.size() == 1) {
    if (!name.starts_with(rule.from)) return std::nullopt;
    return rule.to + std::string(name.substr(rule.from.size()));
  }
  const auto found = match(name, parts);
  if (!found) return std::nullopt;
  const auto kept = between_stars(rule.to);
  std::string text(kept.front());
  for (std::size_t i = 1; i < kept.size(); ++i) text.append(found->at(i - 1)).append(kept[i]);
  return text;
}

std::string mistake_in(const Rename& rule) {
  if (rule.from.empty()) return "an empty text would fit every name; to put something before all of them, write \"*\"";
  if (std::ranges::count(rule.to, '*') > std::ranges::count(rule.from, '*')) {
    return "it has more * than what it replaces";
  }
  return "";
}

std::optional<std::string> from_mindspore(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kWords = {{{"gamma", "weight"},
                                                                                    {"beta", "bias"},
                                                                                    {"moving_mean", "running_mean"},
                                                                                    {"moving_variance", "running_var"},
                                                                                    {"embedding_table", "weight"}}};
  const auto dot = name.rfind('.');
  const auto begin = dot == std::string_view::npos ? 0 : dot + 1;
  for (const auto& [theirs, ours] : kWords) {
    if (name.substr(begin) == theirs) return std::string(name.substr(0, begin)) + std::string(ours);
  }
  return std::nullopt;
}

}  // namespace lockstep::train
