// Conversion of the search's result to a plan. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

namespace lockstep::plan {

/// The result of the exact search on a mesh; `mesh` is nullptr if its budget did not suffice.
struct Proven {
  const OnMesh* mesh = nullptr;
  Seconds lower_bound{};  ///< lower bound for the folded program
  bool found_best = false;
};

/// The plan of a candidate whose prediction is that of the whole program. Without alternatives and durations.
Plan written_plan(const Task& task, const Candidate& candidate, const Proven& proven);

Alternative as_alternative(const Candidate& candidate, std::string name);

}  // namespace lockstep::plan
