// The main function of `lockstep`, from the command line to an exit code.
#pragma once

namespace lockstep::cli {

/// The whole program: parses, acts, prints errors to stderr as `lockstep: error: ...`.
int run_command_line(int argc, char** argv) noexcept;

}  // namespace lockstep::cli
