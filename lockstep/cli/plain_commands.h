// The subcommands that need no libtorch: `lockstep convert`, and those of applications (apps/). The small program
// executes them itself, so that an image of the operator needs no libtorch.
#pragma once

#include <lockstep/cli/app_commands.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// Parses and executes the command if `words` (without the program) begin with one of these commands; nullopt: they do
/// not. Errors: those of the command.
std::optional<int> run_plain_command(const std::vector<std::string>& words, const AppCommands& apps);

}  // namespace lockstep::cli
