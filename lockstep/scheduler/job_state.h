// The state of a scheduler's job, and its end. Pure: time is an argument.
#pragma once

#include <lockstep/scheduler/membership.h>

#include <optional>
#include <string>

namespace lockstep::scheduler {

/// Why the job is complete and needs no more workers, once a member has finished: with recovery, workers end together,
/// after the last operation that needs them all.
std::optional<std::string> find_completion(const Membership& membership);

/// The states of a job, with the names of MindSpore's scheduler.
enum class State { starting, ready, node_timeout, exit };

State state_of(const Membership& membership);

/// "CLUSTER_STARTING", "CLUSTER_READY", "NODE_TIMEOUT", "CLUSTER_EXIT".
const char* name(State state);

/// The end of a job.
struct Ending {
  bool ok = true;
  std::string reason;
};

std::optional<Ending> find_ending(const Membership& membership, Time now);

}  // namespace lockstep::scheduler
