// A failure ordered on purpose, so that people and tests can see what a job does about it.
#pragma once

#include <lockstep/base/environment.h>

#include <cstdint>
#include <optional>

namespace lockstep::train {

enum class FaultAction {
  raise,  ///< throws an Error on that rank
  kill,   ///< SIGKILL, as the kernel's out-of-memory killer would
  stop,   ///< SIGSTOP: the process hangs and says nothing
  exit,   ///< exits with code 3 at once, without a word
  term,   ///< SIGTERM, as a batch system would: the run ends in good order
};

struct Fault {
  int rank = 0;
  std::int64_t step = 1;  ///< of the run, counted from 1
  FaultAction action = FaultAction::raise;

  bool operator==(const Fault&) const = default;
};

/// From LOCKSTEP_FAULT, e.g. "rank=1,step=3,action=throw" (or kill, stop, exit, term); nullopt when unset or empty.
/// Error(environment) for anything else.
std::optional<Fault> find_fault(const Environment& environment);

/// Does what was ordered, if it was ordered for this rank and step. Call it before each step.
void trigger(const std::optional<Fault>& fault, int rank, std::int64_t step);

}  // namespace lockstep::train
