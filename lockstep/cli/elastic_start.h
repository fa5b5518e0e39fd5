// The start of an elastic agent from the flags of `lockstep run`.
#pragma once

#include <lockstep/cli/node_flags.h>
#include <lockstep/cluster/launch.h>

namespace lockstep::cli {

/// Finds the other agents, runs this node's part of the job and prints the report of a failure; returns the exit code.
/// Error(invalid_argument) for flags that are half given or contradict each other.
int start_agent(const NodeFlags& flags, const cluster::LaunchOptions& launch);

}  // namespace lockstep::cli
