// Fault injection: deliberate failures (LOCKSTEP_FAULT), to show and test how a job handles them.
#pragma once

#include <lockstep/base/environment.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace lockstep {

enum class FaultAction {
  raise,    ///< throws an Error on that rank
  kill,     ///< SIGKILL, as the kernel's out-of-memory killer would
  stop,     ///< SIGSTOP: the process hangs silently
  exit,     ///< exits with code 3 at once, without a message
  quit,     ///< calls exit(0), as a program that ends in the middle without an error
  term,     ///< SIGTERM, as a batch system would: the run ends cleanly
  lose,     ///< throws as if a connection to another rank had broken
  loop,     ///< runs an endless loop, like code that waits for an event that never occurs
  corrupt,  ///< changes a value of its parameters, as a flipped bit would; done by the caller, which has the parameters
  slow,     ///< takes longer than other ranks for this step and all later steps
};

/// The point of a step at which a fault happens.
enum class FaultPlace {
  connect,   ///< outside of steps: after the rendezvous, before ranks connect. `step` is a generation
  begin,     ///< before the step
  forward,   ///< after the forward of its first batch
  backward,  ///< near the end of its last backward, while gradients are being reduced
  reduced,   ///< when the gradients are reduced, before the update
  updated,   ///< after the update
  evaluate,  ///< before the evaluation that follows the step
  save,      ///< before the checkpoint that follows the step
};

struct InjectedFault {
  int rank = 0;
  std::int64_t step = 1;  ///< step of the run, counted from 1; for connect, the generation of a job with a scheduler
  FaultAction action = FaultAction::raise;
  FaultPlace place = FaultPlace::begin;
  std::chrono::milliseconds delay{0};  ///< extra time of a slow step, or time until the connection is lost

  bool operator==(const InjectedFault&) const = default;
};

/// The fault of LOCKSTEP_FAULT, e.g. "rank=1,step=3,action=throw" (or kill, stop, exit, term, lose, loop, corrupt,
/// slow), optionally with "place=backward" (or another of FaultPlace), and for slow and lose with "ms=50"; nullopt when
/// unset or empty. Error(environment) for anything else.
std::optional<InjectedFault> find_injected_fault(const Environment& environment);

/// Whether the fault is for this rank, step and place; slow is also due in all steps after its step.
bool is_due(const std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place);

/// Executes the fault if it is due. Returns true when the caller must corrupt its parameters.
bool trigger(const std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place);

}  // namespace lockstep
