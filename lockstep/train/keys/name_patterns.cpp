// Matches of configured patterns against parameter names, with an error for a pattern that matches none.
#include <lockstep/base/nearest.h>
#include <lockstep/global/distribute_module.h>
#include <lockstep/train/keys/name_patterns.h>

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::train {
namespace {

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMostShown = 20;
  const auto shown = std::min(names.size(), kMostShown);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < names.size() ? fmt::format(", ... ({} in all)", names.size()) : "");
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

}  // namespace lockstep::train
