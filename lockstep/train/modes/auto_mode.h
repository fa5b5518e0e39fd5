// parallel.mode auto: the planner chooses the mesh and the layout of the model on it, and the run continues in
// semi_auto, or in data_parallel where that is the plan. And layouts in files: parallel.strategy_ckpt_save_file and
// strategy_ckpt_load_file, in the format of plans.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/plan.h>
#include <lockstep/plan/search/search.h>
#include <lockstep/train/program.h>

#include <string>
#include <vector>

namespace lockstep::train {

bool is_auto_mode(const ParallelConfig& config);

/// The planner's options: parallel.mesh, parallel.shard and their axes, for `devices` ranks; planned_search() adds the
/// strategies. Error(config) with file and line.
plan::SearchOptions search_options(const ParallelConfig& config, int devices);

/// parallel.cluster, or the defaults, for that many devices and with parallel.memory_limit. Errors as load_cluster().
plan::Cluster planned_cluster(const ParallelConfig& config, int devices);

/// The samples of one step of the whole job: data.global_batch_size, or data.batch_size for each rank.
std::int64_t samples_of_step(const ResolvedRun& config, int devices);

/// The same run in mode semi_auto with the plan's mesh, placements and strategies.
ResolvedRun laid_out_as(const ResolvedRun& config, const plan::Plan& plan);

/// The same run in mode semi_auto: the plan's mesh and placements, and batches of such a size that a step has as many
/// pictures as with data_parallel. If the plan is data parallel, the run is in mode data_parallel, which does the same
/// in less time.
ResolvedRun with_plan(const ResolvedRun& config, const Program& program, const plan::Plan& plan);

/// The plan for this number of ranks, explained as by `lockstep plan`, without a start of ranks; for a single rank,
/// advice on how to get a plan. Errors as resolve_auto().
std::string describe_plan(const ResolvedRun& config, const Program& program, int devices);

struct AutoRun {
  ResolvedRun config;  ///< the configuration for the rest of the run
  std::string text;    ///< the plan, explained
  std::vector<std::string> remarks;
};

/// Plans on every rank, checks that all have the same plan, saves it as plan.json in system.work_dir and to
/// parallel.plan, and, with parallel.verify_plan, measures the plan and, if it fits into memory, data parallel over
/// that number of steps, and chooses the faster one. A collective. Error(mismatch) naming the ranks whose plan differs.
AutoRun resolve_auto(const ResolvedRun& config, const Program& program, const Group& group);

/// Writes parallel.strategy_ckpt_save_file, if it is given. For rank 0.
void save_strategy_file(const ResolvedRun& config, const Program& program, int devices);

/// The run with the layout of parallel.strategy_ckpt_load_file: in the mode of the run that wrote the file; for a
/// layout of `lockstep plan` in semi_auto (or data_parallel if the layout is data parallel). data.batch_size keeps its
/// meaning in parallel.mode. A collective. Error(config) for a file of another number of ranks; Error(mismatch) where
/// ranks read different files.
ResolvedRun with_strategy_file(const ResolvedRun& config, const Program& program, const Group& group);

}  // namespace lockstep::train
