// The start of a process from its options: fork, set-up, exec. Internal to process.h.
#pragma once

#include <lockstep/base/process.h>

namespace lockstep::detail {

/// Returns once the program runs. On failure, throws the errors of Child's constructor and releases all resources.
RunningChild spawn(const ChildOptions& options);

/// The file of a program: `name` itself if it contains a '/', else the first executable file of that name in the PATH
/// of `environment`. Error(invalid_argument) when no such file exists.
std::string find_program(const std::string& name, const Environment& environment);

}  // namespace lockstep::detail
