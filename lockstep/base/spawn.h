// The start of a process from its options: fork, set-up, exec. Internal to process.h.
#pragma once

#include <lockstep/base/process.h>

namespace lockstep::detail {

/// Returns once the program runs; throws as Child's constructor does, with nothing left behind.
RunningChild spawn(const ChildOptions& options);

/// The file that `name` means: itself with a '/', else the first executable one in the PATH of `environment`.
/// Error(invalid_argument) when there is none.
std::string find_program(const std::string& name, const Environment& environment);

}  // namespace lockstep::detail
