// The names of the classes of predictions whose samples have none, such as pictures of a folder.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/program.h>

#include <string>
#include <vector>

namespace lockstep::train {

/// Of the data that the configuration names: its format's, or those that its training data has; empty where there are
/// none, or the data cannot be read. Never throws Error.
std::vector<std::string> class_names(const RunConfig& config, const Program& program);

}  // namespace lockstep::train
