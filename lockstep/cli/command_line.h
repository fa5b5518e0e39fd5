// From the command line to an exit code.
#pragma once

#include <exception>

namespace lockstep::cli {

/// The whole program: parses, acts, prints errors to stderr as `lockstep: error: ...`.
int run_command_line(int argc, char** argv) noexcept;

/// 2 for errors in what the user wrote (arguments, configuration, environment), 1 for all others.
int exit_code_for(const std::exception& error);

}  // namespace lockstep::cli
