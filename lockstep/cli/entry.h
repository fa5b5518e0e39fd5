// The two executables of `lockstep` as functions. Their main functions are in apps/lockstep/.
#pragma once

#include <lockstep/cli/app_commands.h>

namespace lockstep::cli {

/// The small program: starts ranks if that needs no libtorch, and executes the whole program otherwise. Errors
/// are printed to stderr.
int run_small_program(int argc, char** argv, const AppCommands& apps);

/// The whole program: parses the command, executes it, prints errors to stderr as `lockstep: error: ...`.
/// Configurations can name `parts`.
int run_whole_program(int argc, char** argv, const AppCommands& apps, const KnownParts& parts) noexcept;

}  // namespace lockstep::cli
