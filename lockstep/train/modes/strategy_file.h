// parallel.strategy_ckpt_save_file and strategy_ckpt_load_file: what a run used, in one file in the format of plans.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/plan.h>
#include <lockstep/train/program.h>

namespace lockstep::train {

/// The layout of a run in mode data_parallel, semi_auto or stand_alone: its mesh, placements and strategies, without
/// costs. Parameters that no pattern names are replicated, and a last pattern "*" says so.
plan::Plan layout_of_run(const RunConfig& config, const Program& program, int devices);

/// Writes parallel.strategy_ckpt_save_file, if it is given. For rank 0.
void save_strategy_file(const RunConfig& config, const Program& program, int devices);

/// The run as parallel.strategy_ckpt_load_file says: in the mode in which the run that wrote it was, in semi_auto for
/// the layout of `lockstep plan` (data_parallel where it is that). data.batch_size keeps its meaning in parallel.mode.
/// A collective. Error(config) for a file of another number of ranks; Error(mismatch) where ranks read different files.
RunConfig with_strategy_file(const RunConfig& config, const Program& program, const Group& group);

}  // namespace lockstep::train
