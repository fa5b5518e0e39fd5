// The statistics of the table with which a run was trained. They are stored in its folder, and used by everything that
// continues from the run.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/program.h>
#include <lockstep/train/reports.h>

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::train {

/// Whether the data is a table in a file, whose statistics determine the features.
bool has_table(const RunConfig& config);

/// The content of table.json in the folder of this file of weights or checkpoint, or in one of the two folders above
/// it; empty: there is none.
std::string table_of_run(const std::filesystem::path& weights);

/// The statistics of the current training file, in the same form. Empty if the data is not a table, or cannot be read;
/// the reader of the data reports that.
std::string table_of_training(const RunConfig& config);

/// The difference of two such texts, "column area: mean 3 then, 4 now"; empty: they are equal. Error(data) for a
/// damaged text.
std::string difference_of_tables(const std::string& then, const std::string& now);

/// The configuration with these statistics, and a program that reads its data with them; unchanged if the text is
/// empty.
RunConfig with_table(RunConfig config, const std::string& table);
/// Whether the configuration has such statistics.
bool reads_as_learned(const RunConfig& config);
Program with_data_of(Program program, const RunConfig& config);

/// The configuration for predictions: files may lack the targets.
RunConfig without_targets(RunConfig config);

/// Advice for a regression whose predictions are worse than the mean of the targets, because the targets are large and
/// not scaled.
std::optional<std::string> advice_on_targets(const RunConfig& config, const std::optional<Evaluation>& evaluation);

}  // namespace lockstep::train
