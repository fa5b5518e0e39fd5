// parallel.strategy and parallel.dataset_strategy, checked against the model and one traced step before a run begins,
// and as constraints of the planner.
#pragma once

#include <lockstep/plan/search/search.h>
#include <lockstep/train/modes/planned_run.h>
#include <lockstep/train/program.h>

namespace lockstep::train {

/// The run in mode semi_auto with strategies that were checked: names of modules without weights (a torch::nn::ReLU)
/// become those of operators, and lists of inputs get their names. Other modes: the run as it is. Error(config) with
/// file and line that names the key and the operator or parameter: unknown names (also in parallel.shard), tuples that
/// do not fit the tensors, divisions without matching axes of the mesh. A step is traced only if operators or outputs
/// have strategies.
ResolvedRun with_checked_strategies(const ResolvedRun& config, const Program& program, int devices);

struct PlannedSearch {
  PlannedStep step;
  plan::SearchOptions options;
};

/// The traced step of a run in mode auto with the user's strategies, and the options of the search for its plan:
/// parallel.mesh, shard, strategy and dataset_strategy. Without parallel.mesh, only meshes that can satisfy the
/// strategies are searched. Errors as with_checked_strategies() and trace_run().
PlannedSearch planned_search(const ResolvedRun& config, const Program& program, int devices);

}  // namespace lockstep::train
