// The storage that MS_RECOVERY_PATH names: a folder, or a key of an etcd.
#pragma once

#include <lockstep/scheduler/state_place.h>

#include <string>

namespace lockstep::cli {

/// Error(environment) for an address that is none; Error(io) for a folder that cannot be made.
scheduler::StatePlace state_place(const std::string& recovery_path);

}  // namespace lockstep::cli
