// What the operator adds to the program `lockstep`: the subcommand `lockstep operator`, and the conversions of jobs of
// other operators for `lockstep convert`.
#pragma once

#include <lockstep/cli/app_commands.h>

#include <vector>

namespace lockstep::kube {

cli::AppCommands operator_commands();

/// Its parts.
void add_operator(CLI::App& app, cli::Action& chosen);
std::vector<cli::Converter> job_converters();

}  // namespace lockstep::kube
