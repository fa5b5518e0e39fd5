// Fault injection: failures ordered on purpose (LOCKSTEP_FAULT), to show and test how a job handles them.
#pragma once

#include <lockstep/base/environment.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace lockstep {

enum class FaultAction {
  raise,    ///< throws an Error on that rank
  kill,     ///< SIGKILL, as the kernel's out-of-memory killer would
  stop,     ///< SIGSTOP: the process hangs and says nothing
  exit,     ///< exits with code 3 at once, without a word
  term,     ///< SIGTERM, as a batch system would: the run ends in good order
  lose,     ///< throws as if a connection to another rank had broken
  loop,     ///< computes for ever, as code that waits for what never comes
  corrupt,  ///< has another number in its parameters, as after a flipped bit: whoever holds them does it
  slow,     ///< takes longer than the others for this step and all that follow
};

/// Where in a step it happens.
enum class FaultPlace {
  connect,   ///< in no step: when ranks know of each other, before they connect. A step is a generation
  begin,     ///< before it
  forward,   ///< after the forward of its first batch
  backward,  ///< near the end of its last backward, while gradients travel
  reduced,   ///< when the gradients are reduced, before the update
  updated,   ///< after the update
  evaluate,  ///< before the evaluation that follows the step
  save,      ///< before the checkpoint that follows the step
};

struct InjectedFault {
  int rank = 0;
  std::int64_t step = 1;  ///< of the run, counted from 1; for connect, the generation of a job with a scheduler
  FaultAction action = FaultAction::raise;
  FaultPlace place = FaultPlace::begin;
  std::chrono::milliseconds delay{0};  ///< of a step that is slow, or until the others are lost

  bool operator==(const InjectedFault&) const = default;
};

/// From LOCKSTEP_FAULT, e.g. "rank=1,step=3,action=throw" (or kill, stop, exit, term, lose, loop, corrupt, slow),
/// perhaps with "place=backward" (or another of FaultPlace), and for slow and lose with "ms=50"; nullopt when unset or
/// empty. Error(environment) for anything else.
std::optional<InjectedFault> find_injected_fault(const Environment& environment);

/// Whether something was ordered for this rank, step and place: for slow, this step or an earlier one.
bool is_due(const std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place);

/// Does what was ordered, if it is due. True: the caller is to corrupt its parameters.
bool trigger(const std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place);

}  // namespace lockstep
