// The first line of config.yaml for programs with their own model.
#pragma once

#include <string>

namespace lockstep::train {

/// The first line of a config.yaml that such a program writes. load_run_config() uses it to report which program owns
/// the file.
std::string own_program_line(const std::string& program);

}  // namespace lockstep::train
