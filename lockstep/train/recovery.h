// A run that goes on in the same processes after some of its ranks were lost (docs/recovery.md).
#pragma once

#include <lockstep/base/fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/console.h>
#include <lockstep/train/resume.h>
#include <lockstep/train/run.h>
#include <lockstep/train/shard_parts.h>

#include <functional>
#include <optional>

namespace lockstep::train {

/// What a rank holds on to while it has no group.
struct Kept {
  std::optional<Fault> fault = find_fault(current_environment());  ///< that is still to happen
  std::optional<Checkpoint> state;                                 ///< see Session::salvage
  std::optional<KeptParts> parts;   ///< instead, where the ranks have it together: see Session::salvage_parts
  std::optional<Claim> claim;       ///< that a step made again has not been compared with to the end
  std::optional<RunResult> result;  ///< once there is one; only the others' arrival at the end was missing
};

/// All ranks' states are compared, and the furthest becomes everybody's (also in `kept`). nullopt, and nothing kept,
/// when there is none that counts: the checkpoint is next. A collective.
std::optional<ResumePoint> agree_on_state(Kept& kept, const Group& group, Console& console);

/// Calls `part` with the group; and, when it fails because ranks were lost, with the group of the next generation. Its
/// own errors end it: the other ranks go on without this process.
RunResult run_with_recovery(Group group, const std::function<RunResult(const Group&, Kept&)>& part);

}  // namespace lockstep::train
