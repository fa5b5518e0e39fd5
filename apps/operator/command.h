// What the operator adds to the program `lockstep`: the subcommand `lockstep operator`, and the conversions of jobs of
// other operators for `lockstep convert`.
#pragma once

#include <lockstep/cli/command.h>

namespace lockstep::kube {

cli::AppCommands operator_commands();

}  // namespace lockstep::kube
