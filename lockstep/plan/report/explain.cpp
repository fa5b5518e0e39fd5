// The explanation of a plan as text.
#include <lockstep/plan/report/explain.h>

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
  if (!plan.mode.empty()) return "The layout is that of a run; it was not searched for.";
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
    const auto placement = shown_parameters(row.parameters) + (row.given ? " (given)" : "");
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

namespace {

/// Formats a table whose columns are as wide as their widest cell.
std::string as_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format(" {:<{}} ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string collectives_text(const Traffic& traffic) {
  std::vector<std::vector<std::string>> rows{{"collective", "a step", "bytes of each rank"}};
  for (std::size_t kind = 0; kind < kCollectives; ++kind) {
    if (traffic.count[kind] == 0) continue;
    rows.push_back({std::string(name(static_cast<Collective>(kind))), fmt::format("{:.0f}", traffic.count[kind]),
                    shown(traffic.bytes[kind])});
  }
  return rows.size() > 1 ? as_table(rows) : "  no collectives\n";
}

std::string modules_text(const Plan& plan) {
  std::vector<std::vector<std::string>> rows{
      {"module", "times", "placement", "compute", "communication", "second best placement", "step with it"}};
  for (const auto& each : grouped_rows(plan.modules)) {
    rows.push_back({each.name, each.times > 1 ? fmt::format("x{}", each.times) : "", each.placement,
                    shown(each.row.compute), shown(each.row.communication), each.row.runner_up,
                    each.row.runner_up_cost ? shown(*each.row.runner_up_cost) : ""});
  }
  return as_table(rows);
}

/// The user's decisions about operators and inputs.
std::string given_text(const Plan& plan) {
  if (plan.operators.empty() && plan.inputs_by_name.empty()) return {};
  std::vector<std::vector<std::string>> rows{{"given", "strategy"}};
  for (const auto& [name, strategy] : plan.operators) rows.push_back({name, strategy});
  for (const auto& [name, placements] : plan.inputs_by_name) rows.push_back({"input " + name, shown_short(placements)});
  return as_table(rows) + "\n";
}

std::string alternatives_text(const Plan& plan) {
  std::vector<std::vector<std::string>> rows{{"alternative", "mesh", "step", "memory", ""}};
  for (const auto& each : plan.alternatives) {
    rows.push_back({each.name, shown_mesh(each.mesh_sizes), shown(each.cost), shown(each.memory),
                    each.fits ? "" : "does not fit"});
  }
  return as_table(rows);
}

bool is_constrained(const Plan& plan) {
  return std::any_of(plan.modules.begin(), plan.modules.end(), [](const ModuleRow& row) { return row.given; });
}

}  // namespace

std::string explain(const Plan& plan) {
  const auto& time = plan.prediction;
  const auto& memory = time.memory;
  std::string text = fmt::format("Plan for {} of \"{}\": mesh {}\n\n", shown_devices(plan.devices), plan.cluster,
                                 shown_mesh(plan.mesh_sizes, plan.mesh_names));
  text += fmt::format(
      "A step takes {}: compute {}, collectives of operators {}, between operators {},\n  waiting for gradients {} "
      "(their reduction takes {}, the rest is hidden behind the backward phase)\n",
      shown(time.cost), shown(time.compute), shown(time.communication), shown(time.redistribution), shown(time.exposed),
      shown(time.reduction));
  text += shown_proof(plan) + "\n";
  text += fmt::format(
      "Each device holds {} of {}: parameters {}, gradients {}, optimizer {}, activations {}, buckets {}\n\n",
      shown(memory.total()), shown(plan.device_memory), shown(memory.parameters), shown(memory.gradients),
      shown(memory.optimizer_state), shown(memory.activations), shown(memory.communication));
  text +=
      alternatives_text(plan) + "\n" + collectives_text(time.traffic) + "\n" + given_text(plan) + modules_text(plan);
  text += fmt::format(
      "\nPlacements, one for each axis of the mesh: R whole on every rank, S0 divided in dimension 0 (outputs), S1 in "
      "dimension 1 (inputs){}.\nTraced in {}, searched in {}. Plan {}\n",
      is_constrained(plan) ? "; (given): by the user, and kept" : "", shown(plan.trace_time), shown(plan.search_time),
      plan_hash(plan).substr(0, 12));
  return text;
}

}  // namespace lockstep::plan
