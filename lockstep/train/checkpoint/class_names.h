// The names of the classes for predictions of samples without class names, such as pictures of a folder.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/program.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::train {

/// The names for the configuration's data: those of its format, or of its training data. Empty if there are none, or
/// the data cannot be read. Never throws Error.
std::vector<std::string> class_names(const RunConfig& config, const Program& program);

/// The names that a run has learned, from its folder: the folder of this file of weights or checkpoint, or one of the
/// two folders above it. Empty if there are none. Error(data) if the file is damaged.
std::vector<std::string> classes_of_run(const std::filesystem::path& weights);

/// Error(data), naming the first difference, if data with these classes would get other numbers: a folder or a word of
/// the training data is renamed, new, or missing. An empty list on either side is not a difference.
void require_same_classes(const std::vector<std::string>& learned, const std::vector<std::string>& given);

/// The content of classes.json.
std::string classes_text(const std::vector<std::string>& names);

}  // namespace lockstep::train
