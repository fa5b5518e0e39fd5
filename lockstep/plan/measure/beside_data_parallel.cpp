#include <lockstep/plan/measure/beside_data_parallel.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::plan {
namespace {

bool is_data_parallel(const Plan& plan) {
  const auto whole = [](const auto& pattern) {
    return std::all_of(pattern.second.begin(), pattern.second.end(),
                       [](const auto& each) { return each.is_replicate(); });
  };
  return plan.mesh_sizes.size() == 1 && plan.inputs == Placements{Shard(0)} &&
         std::all_of(plan.parameters.begin(), plan.parameters.end(), whole);
}

}  // namespace

bool may_try_data_parallel(const Plan& plan, std::vector<std::string>& remarks) {
  if (is_data_parallel(plan)) return false;
  const auto* plain = find_alternative(plan, "data_parallel");
  if (plain == nullptr || plain->fits) return true;
  remarks.emplace_back("not measured beside data parallel, which does not fit into memory");
  return false;
}

bool beats_data_parallel(int steps, const MeasuredSteps& of_plan, const MeasuredSteps& of_data_parallel,
                         std::vector<std::string>& remarks) {
  const int of_turn = (steps + 1) / 2;
  double plan = of_plan(of_turn);
  double plain = of_data_parallel(of_turn);
  plan = std::min(plan, of_plan(of_turn));
  plain = std::min(plain, of_data_parallel(of_turn));
  const bool plan_wins = plan <= plain;
  remarks.push_back(
      fmt::format("measured over {} steps: the plan {:.2f} ms a step, data parallel {:.2f} ms; going on with {}", steps,
                  plan * 1e3, plain * 1e3, plan_wins ? "the plan" : "data parallel"));
  return plan_wins;
}

}  // namespace lockstep::plan
