#include <lockstep/plan/report/shown.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace lockstep::plan {
namespace {

std::string scaled_text(double value, double step, const std::array<const char*, 4>& units) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && std::abs(value) >= step) {
    value /= step;
    ++unit;
  }
  return value == 0 ? fmt::format("0 {}", units[0]) : fmt::format("{:.3g} {}", value, units[unit]);
}

std::string with_star(const std::string& name) {
  std::string text;
  bool first = true;
  for (std::size_t begin = 0; begin <= name.size();) {
    const auto end = std::min(name.find('.', begin), name.size());
    const auto part = name.substr(begin, end - begin);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!first) text += '.';
    text += number ? "*" : part;
    first = false;
    begin = end + 1;
  }
  return text;
}

}  // namespace

std::string shown(Seconds time) { return scaled_text(time.value * 1e6, 1000, {"us", "ms", "s", "ks"}); }

std::string shown(Bytes bytes) {
  if (bytes.value < 1e3) return fmt::format("{:.0f} B", bytes.value);
  return scaled_text(bytes.value / 1e3, 1000, {"kB", "MB", "GB", "TB"});
}

std::string shown_devices(int devices) { return fmt::format("{} device{}", devices, devices == 1 ? "" : "s"); }

std::string shown_mesh(const std::vector<int>& sizes, const std::vector<std::string>& names) {
  if (names.size() != sizes.size()) return fmt::format("{}", fmt::join(sizes, "x"));
  std::string text;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (axis > 0) text += " x ";
    text += fmt::format("{} {}", names[axis], sizes[axis]);
  }
  return text;
}

std::string shown_short(const Placements& placements) {
  std::string text;
  for (const auto& each : placements) {
    if (!text.empty()) text += ',';
    text += each.is_shard() ? fmt::format("S{}", each.dim) : each.is_partial() ? "P" : "R";
  }
  return text;
}

std::string shown_parameters(const std::vector<std::pair<std::string, Placements>>& parameters) {
  std::string text;
  for (const auto& [name, placements] : parameters) {
    if (!text.empty()) text += "  ";
    text += fmt::format("{} {}", name, shown_short(placements));
  }
  return text;
}

std::string shown_proof(const Plan& plan) {
  if (plan.optimal)
    return "Optimal: this cost model has no faster layout on this mesh (repeated layers are laid out alike).";
  const double above = 100 * (plan.prediction.cost / plan.lower_bound - 1);
  if (plan.bound_is_work_alone) {
    return fmt::format(
        "Not proven optimal: the mesh and the model are too large for an exact search. A lower bound is {}, which is "
        "the\n"
        "  computation alone, evenly divided and without communication: {:.3g}% less than this plan.",
        shown(plan.lower_bound), 100 * (1 - plan.lower_bound / plan.prediction.cost));
  }
  return fmt::format("At most {:.3g}% slower than the best possible layout on this mesh ({} is a proven lower bound).",
                     above, shown(plan.lower_bound));
}

std::vector<RowGroup> grouped_rows(const std::vector<ModuleRow>& rows) {
  std::vector<RowGroup> groups;
  for (const auto& row : rows) {
    const auto name = row.module.empty() && row.parameters.empty() ? "(without parameters)" : with_star(row.module);
    const auto placement = shown_parameters(row.parameters);
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const RowGroup& each) {
      return each.name == name && each.placement == placement;
    });
    if (found == groups.end()) {
      groups.push_back({.name = name, .times = 1, .row = row, .placement = placement});
      continue;
    }
    ++found->times;
    found->row.compute += row.compute;
    found->row.communication += row.communication;
    found->row.moved += row.moved;
    if (row.runner_up_cost && (!found->row.runner_up_cost || *row.runner_up_cost < *found->row.runner_up_cost)) {
      found->row.runner_up = row.runner_up;
      found->row.runner_up_cost = row.runner_up_cost;
    }
  }
  for (auto& each : groups) {
    if (each.times == 1 && !each.row.module.empty()) each.name = each.row.module;
  }
  return groups;
}

}  // namespace lockstep::plan
