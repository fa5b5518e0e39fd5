// Conversion of the search's result to a plan. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

namespace lockstep::plan {

/// What the exact search said about a mesh; `mesh` is nullptr where it gave up.
struct Proven {
  const OnMesh* mesh = nullptr;
  Seconds lower_bound{};  ///< of the folded program
  bool found_best = false;
};

/// The plan of a candidate whose prediction is that of the whole program. Without alternatives and times.
Plan written_plan(const Task& task, const Candidate& candidate, const Proven& proven);

Alternative as_alternative(const Candidate& candidate, std::string name);

}  // namespace lockstep::plan
