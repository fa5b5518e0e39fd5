// The texts of `lockstep run --help` and `lockstep launch --help` around the options.
#pragma once

#include <lockstep/cli/program_flags.h>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Description, usage, footer, and how options are printed: by one spelling each. Call it when all options are there.
void add_run_help(CLI::App& command, LaunchStyle style);

}  // namespace lockstep::cli
