// parallel.strategy_ckpt_save_file and strategy_ckpt_load_file: the layout of a run, in one file in the format of
// plans.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/plan.h>
#include <lockstep/train/program.h>

namespace lockstep::train {

/// The layout of a run in mode data_parallel, semi_auto or stand_alone: its mesh, placements and strategies, without
/// costs. Parameters that no pattern names are replicated, by a last pattern "*".
plan::Plan layout_of_run(const RunConfig& config, const Program& program, int devices);

/// Writes parallel.strategy_ckpt_save_file, if it is given. For rank 0.
void save_strategy_file(const RunConfig& config, const Program& program, int devices);

/// The run with the layout of parallel.strategy_ckpt_load_file: in the mode of the run that wrote the file; for a
/// layout of `lockstep plan` in semi_auto (or data_parallel if the layout is data parallel). data.batch_size keeps its
/// meaning in parallel.mode. A collective. Error(config) for a file of another number of ranks; Error(mismatch) where
/// ranks read different files.
RunConfig with_strategy_file(const RunConfig& config, const Program& program, const Group& group);

}  // namespace lockstep::train
