// Rows of the report, one per module: its placement, the cost, and the second best placement. Pure.
#pragma once

#include <lockstep/plan/plan.h>
#include <lockstep/plan/search/repeats.h>
#include <lockstep/plan/search/space.h>

#include <vector>

namespace lockstep::plan {

struct DecidedPlan {
  const Program& whole;
  const Folded& folded;
  const Space& space;
  Decisions& decisions;                  ///< decisions of the folded program
  const Assignment& assignment;          ///< assignment of the folded program
  const std::vector<ModuleCost>& costs;  ///< costs of the whole program's modules
};

/// One row for each module with parameters; the last one, with an empty name, is for all operators of other modules.
std::vector<ModuleRow> module_rows(const DecidedPlan& decided);

}  // namespace lockstep::plan
