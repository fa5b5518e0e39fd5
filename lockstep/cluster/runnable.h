// What is executed for the command a user gave.
#pragma once

#include <lockstep/base/environment.h>

#include <string>
#include <vector>

namespace lockstep::cluster {

/// `python3 script.py ...` (or what PYTHON_EXEC names) for a Python script that is not executable, else the command as
/// it is. Error(invalid_argument) when there is none.
std::vector<std::string> runnable(std::vector<std::string> command, const Environment& environment);

}  // namespace lockstep::cluster
