// The checkpoints of one run in a folder: files step_00000123.safetensors, and folders of parts step_00000123.sharded.
#pragma once

#include <lockstep/train/checkpoint.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

struct CheckpointFile {
  std::int64_t step = 0;
  std::filesystem::path file;  ///< or folder of parts
};

/// Newest first; empty for a missing folder. Other files are not touched, here and below.
std::vector<CheckpointFile> list_checkpoints(const std::filesystem::path& folder);

std::filesystem::path checkpoint_file(const std::filesystem::path& folder, std::int64_t step);
/// The folder of one in parts.
std::filesystem::path divided_checkpoint(const std::filesystem::path& folder, std::int64_t step);

/// Saves, and only then removes all but the newest `keep`. Error(io) leaves older checkpoints as they were.
void save_into_folder(const std::filesystem::path& folder, const Checkpoint& checkpoint, std::int64_t keep);

/// Removes all but the newest `keep`. Error(io).
void remove_all_but(const std::filesystem::path& folder, std::int64_t keep);

/// Removes what a killed save, or a killed removal, of a checkpoint in parts has left. Never throws.
void remove_remains(const std::filesystem::path& folder) noexcept;

/// load_checkpoint or load_divided, whichever it is.
Checkpoint load_any_checkpoint(const std::filesystem::path& path);

struct FoundCheckpoint {
  std::filesystem::path file;
  Checkpoint checkpoint;
  std::vector<std::string> skipped;  ///< one sentence for each damaged file that was newer
};

/// The newest intact checkpoint; nullopt when the folder has none at all. Damaged ones that are newer are renamed to
/// *.damaged, so that they are not found again and nothing is lost. Error(data) when all are damaged: starting from the
/// beginning is a decision of the user. Error(io) when one cannot be read.
std::optional<FoundCheckpoint> find_newest_intact(const std::filesystem::path& folder);

}  // namespace lockstep::train
