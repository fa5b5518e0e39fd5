// The resume point of a run: finding a checkpoint, and what the run continues from.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/checkpoint/state_source.h>
#include <lockstep/train/config.h>
#include <lockstep/train/recovery/recovery_state.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

struct ResumePoint {
  RunState state;
  StateSource tensors;
  std::vector<std::string> remarks;  ///< for people, rank 0 only: the origin, and which damaged files were skipped
  std::string origin{};              ///< for messages, on all ranks: "the checkpoint of step 12 in out/checkpoints"
  std::optional<UnverifiedStep> unverified{};  ///< of a state that was in memory: the expected result of the next step
};

/// Follows checkpoint.resume: rank 0 finds the checkpoint and compares its checksums. Ranks that all see it read what
/// they need of it; else rank 0 reads all and sends it to all. nullopt means from the start. A collective.
/// Error(config) when the folder holds checkpoints that this run would mix with its own: any with resume=none, newer
/// ones with resume=FILE. Else errors of find_newest_intact and open_saved_run. All ranks throw the same, unless rank 0
/// cannot read (io).
std::optional<ResumePoint> find_resume_point(const RunConfig& config, const Group& group);

}  // namespace lockstep::train
