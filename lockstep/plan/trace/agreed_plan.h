// The plan that all ranks of a job follow.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/plan.h>
#include <lockstep/plan/search/search.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::plan {

struct PlanRequest {
  Cluster cluster;  ///< has as many devices as there are ranks
  SearchOptions search;
  std::optional<std::string> file;  ///< file to read the plan from, or to write it to
  bool is_measured = false;         ///< the plan will be measured against data parallel before it is used
};

/// The plan in the request's file, adapted to the graph if that has changed. Without a file, the result of search(), or
/// data parallel if that result is predicted to save less than 5 % and will not be measured. Such changes are described
/// in `remarks`. `traced`: the duration of tracing in seconds. Error(config) for a file with a plan for another number
/// of devices.
Plan find_plan(const Graph& graph, double traced, const PlanRequest& request, std::vector<std::string>& remarks);

/// Checks that all ranks have the same plan; rank 0 writes the file if there is none. A collective. Error(mismatch) on
/// all ranks, naming those whose plan differs from rank 0's.
void agree_on(const Plan& plan, const PlanRequest& request, const Group& group);

}  // namespace lockstep::plan
