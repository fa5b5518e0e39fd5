// The resume point of a run: the search for a checkpoint, and the state from which the run continues.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/state/state_source.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::state {

struct ResumePoint {
  std::int64_t step = 0;
  std::string record;  ///< as in saved_checkpoint.h
  StateSource tensors;
  std::vector<std::string> remarks;  ///< for users, rank 0 only: the origin, and the damaged files that were skipped
  std::string origin{};              ///< for messages, on all ranks: "the checkpoint of step 12 in out/checkpoints"
};

/// `resume` is checkpoint.resume: auto, none, or the path of a checkpoint; `folder` has those of the run. Rank 0 finds
/// the checkpoint and compares its checksums. If all ranks see it, each reads the tensors that it needs; else rank 0
/// reads all and sends it to all. nullopt: the run starts from the beginning. A collective. Error(config) when the
/// folder holds checkpoints that this run would mix with its own: any with resume=none, newer ones with resume=FILE.
/// Else errors of find_newest_intact and open_checkpoint. All ranks throw the same error, unless rank 0 cannot read
/// (io).
std::optional<ResumePoint> find_resume_point(const std::filesystem::path& folder, const std::string& resume,
                                             const Group& group);

}  // namespace lockstep::state
