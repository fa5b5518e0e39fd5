// Recovery of a run: it continues in the same processes after some of its ranks were lost (docs/recovery.md).
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint/checkpoint.h>
#include <lockstep/train/checkpoint/resume.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/recovery/shard_parts.h>
#include <lockstep/train/run.h>

#include <functional>
#include <optional>

namespace lockstep::train {

/// The state that a rank keeps while it has no group.
struct Kept {
  std::optional<InjectedFault> fault = find_injected_fault(current_environment());  ///< that has not been triggered yet
  std::optional<Checkpoint> state;                                                  ///< see Session::salvage
  std::optional<KeptParts> parts;            ///< instead, where the ranks have it together: see Session::salvage_parts
  std::optional<UnverifiedStep> unverified;  ///< not yet compared with a repeated step on all ranks
  std::optional<int> signal;                 ///< that asked this rank to end before the group was lost
  std::optional<RunResult> result;           ///< once there is one; only the other ranks had not reached the end
};

/// Compares all ranks' states, and gives the most advanced one to all (also in `kept`). nullopt, and nothing kept,
/// when there is no valid one: the checkpoint is used next. A collective.
std::optional<ResumePoint> agree_on_state(Kept& kept, const Group& group, Console& console);

/// Calls `part` with the group; and, when it fails because ranks were lost, with the group of the next generation,
/// which `group` is then. Without one when the job was completed meanwhile.
/// Other errors end the run in this process: the other ranks continue without it.
RunResult run_with_recovery(std::optional<Group>& group, const std::function<RunResult(const Group&, Kept&)>& part);

}  // namespace lockstep::train
