// The folder of a run, given in place of one of its files, and what later runs and predictions read there: the names of
// classes, and the statistics of the table with which the run was trained.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// Whether the path is the folder of a run: it has checkpoints/ or model.safetensors in it.
bool is_run_folder(const std::filesystem::path& path);

/// The possible run folders of a folder, file of weights or checkpoint, nearest first: the path itself, and the two
/// folders above it (RUN/best/, RUN/checkpoints/step_00000010.sharded). Paths are absolute.
std::vector<std::filesystem::path> folders_of_run_around(const std::filesystem::path& weights);

/// The newest weights of the run: model.safetensors, or the newest checkpoint if the run continued since then. Other
/// paths are returned unchanged. Error(io) if checkpoints cannot be listed.
std::filesystem::path weights_of_run(const std::filesystem::path& path);

/// The newest checkpoint of the run, or model.safetensors if it has none. Other paths are returned unchanged.
std::filesystem::path checkpoint_of_run(const std::filesystem::path& path);

/// The names for the configuration's data: those of its format, or of its training data. Empty if there are none, or
/// the data cannot be read. Never throws Error.
std::vector<std::string> class_names(const ResolvedRun& config, const Program& program);

/// The names that a run has learned, from its folder: the folder of this file of weights or checkpoint, or one of the
/// two folders above it. Empty if there are none. Error(data) if the file is damaged.
std::vector<std::string> classes_of_run(const std::filesystem::path& weights);

/// Error(data), naming the first difference, if data with these classes would get other numbers: a folder or a word of
/// the training data is renamed, new, or missing. An empty list on either side is not a difference.
void require_same_classes(const std::vector<std::string>& learned, const std::vector<std::string>& given);

/// The content of classes.json.
std::string classes_text(const std::vector<std::string>& names);

/// Whether the data is a table in a file, whose statistics determine the features.
bool has_table(const ResolvedRun& config);

/// The content of table.json in the folder of this file of weights or checkpoint, or in one of the two folders above
/// it; empty: there is none.
std::string table_of_run(const std::filesystem::path& weights);

/// The statistics of the current training file, in the same form. Empty if the data is not a table, or cannot be read;
/// the reader of the data reports that.
std::string table_of_training(const ResolvedRun& config);

/// The difference of two such texts, "column area: mean 3 then, 4 now"; empty: they are equal. Error(data) for a
/// damaged text.
std::string difference_of_tables(const std::string& then, const std::string& now);

/// The configuration with these statistics, and a program that reads its data with them; unchanged if the text is
/// empty.
ResolvedRun with_table(ResolvedRun config, const std::string& table);
/// Whether the configuration has such statistics.
bool reads_as_learned(const ResolvedRun& config);
Program with_data_of(Program program, const ResolvedRun& config);

/// The configuration for predictions: files may lack the targets.
ResolvedRun without_targets(ResolvedRun config);

/// Advice for a regression whose predictions are worse than the mean of the targets, because the targets are large and
/// not scaled.
std::optional<std::string> advice_on_targets(const ResolvedRun& config, const std::optional<Evaluation>& evaluation);

}  // namespace lockstep::train
