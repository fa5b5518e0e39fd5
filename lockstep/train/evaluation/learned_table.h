// The statistics of a table that a run has learned with: kept in its folder, and used by all that goes on from it.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/program.h>
#include <lockstep/train/reports.h>

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::train {

/// Whether the data is a table of a file, whose statistics shape features.
bool has_table(const RunConfig& config);

/// What table.json has in the folder of this file of weights or checkpoint, or one of the two above it; empty: there is
/// none.
std::string table_of_run(const std::filesystem::path& weights);

/// The statistics of the training file as it is now, in the same form; empty where the data is no table, or cannot be
/// read, of which its reading says more.
std::string table_of_training(const RunConfig& config);

/// "column area: mean 3 then, 4 now" of two such texts; empty: they say the same. Error(data) for a damaged one.
std::string difference_of_tables(const std::string& then, const std::string& now);

/// The configuration with these statistics, and a program that reads its data with them; as they are where the text is
/// empty.
RunConfig with_table(RunConfig config, const std::string& table);
/// Whether it has such statistics.
bool reads_as_learned(const RunConfig& config);
Program with_data_of(Program program, const RunConfig& config);

/// The configuration for predictions: files may lack what is to be predicted.
RunConfig without_targets(RunConfig config);

/// What may help a regression whose predictions are worse than the mean of the targets, because these are large and not
/// scaled.
std::optional<std::string> advice_on_targets(const RunConfig& config, const std::optional<Evaluation>& evaluation);

}  // namespace lockstep::train
