// The plan that all ranks of a job follow.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/plan.h>
#include <lockstep/plan/search.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::plan {

struct PlanRequest {
  Cluster cluster;  ///< of as many devices as there are ranks
  SearchOptions search;
  std::optional<std::string> file;  ///< holds the plan, or is to
  bool is_measured = false;         ///< beside data parallel, before it is followed
};

/// The plan in the request's file, adapted to the graph where that has changed (`remarks` say so); without one, or
/// where there is no such file yet, what search() finds; data parallel where that is predicted to save less than 5 %
/// and is not measured (`remarks` say so). `traced`: seconds that the graph took. Error(config) for a file with a plan
/// for another number of devices.
Plan find_plan(const Graph& graph, double traced, const PlanRequest& request, std::vector<std::string>& remarks);

/// Makes sure that all ranks have the same plan, and lets rank 0 write the file where there is none. A collective.
/// Error(mismatch) on all ranks, naming those whose plan differs from rank 0's.
void agree_on(const Plan& plan, const PlanRequest& request, const Group& group);

}  // namespace lockstep::plan
