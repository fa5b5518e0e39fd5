// What kind of job the flags about nodes describe.
#pragma once

#include <lockstep/cli/node_flags.h>

namespace lockstep::cli {

bool is_one_node(const NodeFlags& flags);

/// Whether the flags ask for several nodes that may come and go, or for restarts; `launch` is for the rest.
/// Error(invalid_argument) for a --rdzv_backend that does not exist, and flags that contradict each other.
bool needs_agent(const NodeFlags& flags);

}  // namespace lockstep::cli
