// The embedding tables of a run, for the planner.
#pragma once

#include <lockstep/plan/tables/table_advice.h>
#include <lockstep/train/program.h>

#include <optional>

namespace lockstep::train {

/// The tables of the run's model, with the rows that the samples of one of `workers` workers have in a step, counted in
/// samples of the training data. `servers`: the number of parameter servers; nullopt: cluster.server_num. Returns
/// nullopt if the model has no tables, or the optimizer is not a row optimizer, so that there is no choice. Errors of
/// configured_program() and of the data.
std::optional<plan::TableQuestion> planned_tables(const RunConfig& config, const Program& program, int workers,
                                                  std::optional<int> servers);

}  // namespace lockstep::train
