// Recovery of a run: it continues in the same processes after some of its ranks were lost (docs/surviving.md).
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/kept_state.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/trained_run.h>

#include <functional>
#include <optional>

namespace lockstep::train {

/// The state that a rank keeps while it has no group.
struct Kept {
  std::optional<InjectedFault> fault = find_injected_fault(current_environment());  ///< not triggered yet
  std::optional<KeptState> state;                                                   ///< see Session::salvage
  std::optional<int> signal;        ///< a stop signal that arrived before the group was lost
  std::optional<RunResult> result;  ///< the result, if this rank reached the end before the other ranks
};

/// Compares all ranks' states, and sends the most advanced one to all ranks (also in `kept`). nullopt, with an empty
/// `kept`, when there is no valid state: the checkpoint is used next. A collective.
std::optional<ResumePoint> agree_on_state(Kept& kept, const Group& group, Console& console);

/// Calls `part` with the group; and again with the group of the next generation, which replaces `group`, each time that
/// it fails because ranks were lost. `group` is empty if the job was completed meanwhile. Other errors end the run in
/// this process: the other ranks continue without it.
RunResult run_with_recovery(std::optional<Group>& group, const std::function<RunResult(const Group&, Kept&)>& part);

}  // namespace lockstep::train
