// The match of parameter names with patterns of * and ?; the first pattern that matches decides.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/global/distribute_module.h>

#include <algorithm>

namespace lockstep {

bool fits(std::string_view name, std::string_view pattern) {
  std::size_t at = 0;
  std::size_t in_pattern = 0;
  std::size_t star = std::string_view::npos;  // the last `*`, and how much of `name` it has matched so far
  std::size_t after_star = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && (pattern[in_pattern] == '?' || pattern[in_pattern] == name[at]) &&
        pattern[in_pattern] != '*') {
      ++at;
      ++in_pattern;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      after_star = at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++after_star;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(in_pattern), pattern.end(),
                     [](char c) { return c == '*'; });
}

const Placements* find_placements(const ModulePlan& plan, std::string_view name) {
  const auto found = std::find_if(plan.begin(), plan.end(), [&](const auto& each) { return fits(name, each.first); });
  return found == plan.end() ? nullptr : &found->second;
}

void check_patterns(const ModulePlan& plan, const std::vector<std::string>& names) {
  for (const auto& [pattern, placements] : plan) {
    if (std::none_of(names.begin(), names.end(),
                     [&, &fitting = pattern](const std::string& name) { return fits(name, fitting); })) {
      fail(ErrorKind::config, "distribute_module", "no parameter or buffer of the module fits \"{}\"{}", pattern,
           did_you_mean(pattern, names));
    }
  }
}

}  // namespace lockstep
