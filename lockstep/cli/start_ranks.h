// Starting the ranks of one node.
#pragma once

#include <lockstep/cluster/launch.h>

namespace lockstep::cli {

/// Runs the ranks to their end and prints the report of a failure; returns the exit code.
int start_ranks(const cluster::LaunchOptions& options);

}  // namespace lockstep::cli
