#include <lockstep/plan/explain.h>
#include <lockstep/plan/report/shown.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::plan {
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

std::string alternatives_text(const Plan& plan) {
  std::vector<std::vector<std::string>> rows{{"alternative", "mesh", "step", "memory", ""}};
  for (const auto& each : plan.alternatives) {
    rows.push_back({each.name, shown_mesh(each.mesh_sizes), shown(each.cost), shown(each.memory),
                    each.fits ? "" : "does not fit"});
  }
  return as_table(rows);
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
  text += alternatives_text(plan) + "\n" + collectives_text(time.traffic) + "\n" + modules_text(plan);
  text += fmt::format(
      "\nPlacements, one for each axis of the mesh: R whole on every rank, S0 divided in dimension 0 (outputs), S1 in "
      "dimension 1 (inputs).\nTraced in {}, searched in {}. Plan {}\n",
      shown(plan.trace_time), shown(plan.search_time), plan_hash(plan).substr(0, 12));
  return text;
}

}  // namespace lockstep::plan
