// Where a job stands, and whether it is over. Pure: time is an argument.
#pragma once

#include <lockstep/scheduler/roll.h>

#include <optional>
#include <string>

namespace lockstep::scheduler {

/// Why the job needs nobody who is not done, once a member is: with recovery, workers end together, after the last
/// thing that needs them all.
std::optional<std::string> find_completion(const Roll& roll);

/// Where the job stands, under the names that MindSpore's scheduler has for it.
enum class State { starting, ready, node_timeout, exit };

State state_of(const Roll& roll);

/// "CLUSTER_STARTING", "CLUSTER_READY", "NODE_TIMEOUT", "CLUSTER_EXIT".
const char* name(State state);

/// The end of the job, when it has come.
struct Ending {
  bool ok = true;
  std::string reason;
};

std::optional<Ending> find_ending(const Roll& roll, Time now);

}  // namespace lockstep::scheduler
