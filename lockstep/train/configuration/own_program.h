// config.yaml of programs with a model of their own.
#pragma once

#include <string>

namespace lockstep::train {

/// The first line of config.yaml where such a program leaves it, by which load_run_config() can say whose file it is.
std::string own_program_line(const std::string& program);

}  // namespace lockstep::train
