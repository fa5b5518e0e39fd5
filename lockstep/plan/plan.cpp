// Plans: the values of a plan, the patterns that name its parameters, and its adaptation to a changed model.
#include <lockstep/plan/plan.h>
#include <lockstep/plan/search/space.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace lockstep::plan {

bool is_data_parallel(const Plan& plan) {
  const auto whole = [](const auto& pattern) {
    return std::all_of(pattern.second.begin(), pattern.second.end(),
                       [](const auto& each) { return each.is_replicate(); });
  };
  return plan.mesh_sizes.size() == 1 && plan.inputs == Placements{Shard(0)} &&
         std::all_of(plan.parameters.begin(), plan.parameters.end(), whole);
}

const Alternative* find_alternative(const Plan& plan, std::string_view name) {
  const auto& all = plan.alternatives;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

namespace {

/// Replaces numbers between dots by `*`: "blocks.3.fc1.weight" gives "blocks.*.fc1.weight".
std::string pattern_of(const std::string& name) {
  std::string pattern;
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const auto end = std::min(name.find('.', begin), name.size());
    const auto part = name.substr(begin, end - begin);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
    pattern += (begin > 0 ? "." : "") + (number ? "*" : part);
    begin = end + 1;
  }
  return pattern;
}

const KnownParameter* find_known(const std::vector<KnownParameter>& among, const std::string& name) {
  const auto found = std::find_if(among.begin(), among.end(), [&](const auto& each) { return each.name == name; });
  return found == among.end() ? nullptr : &*found;
}

}  // namespace

ModulePlan shortened(const std::vector<std::pair<std::string, Placements>>& parameters) {
  ModulePlan plan;
  for (const auto& [name, placements] : parameters) {
    const bool divided =
        std::any_of(placements.begin(), placements.end(), [](const auto& each) { return !each.is_replicate(); });
    if (!divided) continue;
    const auto pattern = pattern_of(name);
    const bool all_alike = std::all_of(
        parameters.begin(), parameters.end(),
        [&, &lies = placements](const auto& other) { return !fits(other.first, pattern) || other.second == lies; });
    const auto& entry = all_alike ? pattern : name;
    const bool known = std::any_of(plan.begin(), plan.end(), [&](const auto& each) { return each.first == entry; });
    if (!known) plan.emplace_back(entry, placements);
  }
  return plan;
}

std::vector<std::string> adapt(Plan& plan, const std::vector<KnownParameter>& now) {
  std::vector<std::string> changes;
  for (const auto& each : now) {
    const auto* before = find_known(plan.known, each.name);
    if (before == nullptr) {
      const auto* placements = find_placements(plan.parameters, each.name);
      changes.push_back(
          fmt::format("{} is new; it is {}", each.name, placements == nullptr ? "replicated" : to_string(*placements)));
    } else if (*before != each) {
      changes.push_back(fmt::format("{} was [{}] and is [{}]", each.name, fmt::join(before->sizes, ", "),
                                    fmt::join(each.sizes, ", ")));
    }
  }
  for (const auto& each : plan.known) {
    if (find_known(now, each.name) == nullptr) changes.push_back(each.name + " is gone");
  }
  std::erase_if(plan.parameters, [&](const auto& entry) {
    const auto fitting = [&, &pattern = entry.first](const KnownParameter& each) { return fits(each.name, pattern); };
    if (std::none_of(now.begin(), now.end(), fitting)) return true;
    const bool possible = std::all_of(now.begin(), now.end(), [&, &lies = entry.second](const KnownParameter& each) {
      if (!fitting(each)) return true;
      const auto dims = static_cast<std::int64_t>(each.sizes.size());
      const bool has_dims = std::all_of(lies.begin(), lies.end(),
                                        [&](const Placement& one) { return !one.is_shard() || one.dim < dims; });
      return has_dims && may_lie({.sizes = each.sizes}, lies, plan.mesh_sizes);
    });
    if (!possible)
      changes.push_back(
          fmt::format("\"{}\" can no longer be {}; it is replicated", entry.first, to_string(entry.second)));
    return !possible;
  });
  plan.known = now;
  return changes;
}

}  // namespace lockstep::plan
