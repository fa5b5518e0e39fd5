// The kind of job that the flags about nodes describe: one node, several nodes, or with an agent.
#pragma once

#include <lockstep/cli/node_flags.h>

namespace lockstep::cli {

bool is_one_node(const NodeFlags& flags);

/// Whether the flags ask for several nodes that may come and go, or for restarts; `launch` is for the rest.
/// Error(invalid_argument) for a --rdzv_backend that does not exist, and flags that contradict each other.
bool needs_agent(const NodeFlags& flags);

/// Of a launcher that is one of several processes of another one, for a job on this node alone: each of them would
/// start the same job. Error(environment) under mpirun and srun, unless --standalone says that it is meant so; what to
/// tell people under other launchers, which may keep several jobs apart; nullopt where there is nothing to say.
std::optional<std::string> judge_outer_launcher(const NodeFlags& flags, const Environment& environment);

}  // namespace lockstep::cli
