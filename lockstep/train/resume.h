// The resume point of a run: finding and taking checkpoints, and restoring random number generators.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/config.h>
#include <lockstep/train/recovery_state.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

struct ResumePoint {
  Checkpoint checkpoint;
  std::vector<std::string> remarks;  ///< for people, rank 0 only: the origin, and which damaged files were skipped
  std::string origin{};              ///< for messages, on all ranks: "the checkpoint of step 12 in out/checkpoints"
  std::optional<UnverifiedStep> unverified{};  ///< of a state that was in memory: the expected result of the next step
};

/// Follows checkpoint.resume: rank 0 reads the checkpoint, all ranks get it; nullopt means from the start. A
/// collective. Error(config) when the folder holds checkpoints that this run would mix with its own: any with
/// resume=none, newer ones with resume=FILE. Else errors of find_newest_intact and load_checkpoint. All ranks throw the
/// same, unless rank 0 cannot read (io).
std::optional<ResumePoint> find_resume_point(const RunConfig& config, const Group& group);

/// The checkpoint of the run's present state. Gathers the ranks' generators: a collective. Only rank 0
/// gets tensors; they share memory with those given.
Checkpoint take_checkpoint(const RunState& state, const NamedTensors& model_state, const NamedTensors& optimizer_state,
                           const Group& group);

/// Restores the random number generator of rank `rank`. With more ranks than the checkpoint's run had, the generators
/// of the additional ranks are seeded from (seed, rank, step).
void restore_generator(const Checkpoint& checkpoint, int rank, std::int64_t seed);

}  // namespace lockstep::train
