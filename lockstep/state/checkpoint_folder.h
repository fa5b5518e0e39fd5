// The checkpoints of one run in a folder: folders of parts step_00000123.sharded, and files step_00000123.safetensors
// of older programs.
#pragma once

#include <lockstep/state/saved_checkpoint.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::state {

struct CheckpointFile {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// Newest first; empty for a missing folder. Other files are not touched, here and below.
std::vector<CheckpointFile> list_checkpoints(const std::filesystem::path& folder);

/// The path of the checkpoint of a step, and the path of its parts until all of them are on disk.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
std::filesystem::path unfinished_path(const std::filesystem::path& folder, std::int64_t step);

/// Removes all but the newest `keep`. Error(io).
void remove_all_but(const std::filesystem::path& folder, std::int64_t keep);

/// Removes the remains of killed saves and removals. Never throws.
void remove_remains(const std::filesystem::path& folder) noexcept;

struct FoundCheckpoint {
  SavedCheckpoint saved;
  std::vector<std::string> remarks;  ///< one sentence for each newer damaged checkpoint
};

/// The newest intact checkpoint, which was read as a whole to verify it; nullopt when the folder has no checkpoints.
/// Damaged ones that are newer are renamed to *.damaged, so that they are not found again and nothing is lost.
/// Error(data) when all are damaged: only the user decides to start from the beginning. Error(io) when one cannot be
/// read.
std::optional<FoundCheckpoint> find_newest_intact(const std::filesystem::path& folder);

/// The best of several checkpoints in a folder: FOLDER/best.json, which the callback best_checkpoints writes.
struct BestCheckpoint {
  std::string name;    ///< in the folder
  std::string metric;  ///< the metric of the comparison
  double value = 0;
};

/// Writes FOLDER/best.json. Error(io).
void note_best(const std::filesystem::path& folder, const BestCheckpoint& best);

/// nullopt if there is no such file, or it cannot be read.
std::optional<BestCheckpoint> noted_best(const std::filesystem::path& folder);

}  // namespace lockstep::state
