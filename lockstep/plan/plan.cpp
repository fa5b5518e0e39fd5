#include <lockstep/plan/plan.h>

#include <algorithm>

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

}  // namespace lockstep::plan
