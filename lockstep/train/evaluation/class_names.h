// The names of the classes of predictions whose samples have none, such as pictures of a folder.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/program.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::train {

/// Of the data that the configuration names: its format's, or those that its training data has; empty where there are
/// none, or the data cannot be read. Never throws Error.
std::vector<std::string> class_names(const RunConfig& config, const Program& program);

/// Those that a run has learned, which left them in its folder: the folder of this file of weights or checkpoint, or
/// one of the two above it. Empty where there are none. Error(data) where the file is damaged.
std::vector<std::string> classes_of_run(const std::filesystem::path& weights);

/// Error(data), naming the first difference, if data with these classes would be taken for others: a folder or a word
/// of the training data has another name, is new, or has gone. Either being empty is no difference.
void require_same_classes(const std::vector<std::string>& learned, const std::vector<std::string>& given);

/// What classes.json has.
std::string classes_text(const std::vector<std::string>& names);

}  // namespace lockstep::train
