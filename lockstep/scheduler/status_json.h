// The document of /v1/status (docs/scheduler.md has its schema).
#pragma once

#include <lockstep/scheduler/membership.h>

#include <string>

namespace lockstep::scheduler {

struct StatusFacts {
  std::string version;   ///< of Lockstep
  bool secured = false;  ///< TLS
  bool saves = false;    ///< keeps its state in MS_RECOVERY_PATH
  Time started;
};

std::string status_json(const Membership& membership, const StatusFacts& facts, Time now);

/// The same as a table for people. Error(data) when `json` is not a status document.
std::string status_table(const std::string& json);

}  // namespace lockstep::scheduler
