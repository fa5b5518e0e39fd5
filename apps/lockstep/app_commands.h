// The commands of all applications, for both programs. No libtorch.
#pragma once

#include <lockstep/cli/command.h>

namespace lockstep {

cli::AppCommands app_commands();

}  // namespace lockstep
