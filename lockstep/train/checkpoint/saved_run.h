// The checkpoint of a run on disk: a folder of parts with an index, or one file.
//
// The folder is one of sharded/checkpoint.h. Its tensors have the names of checkpoint.h, and its metadata
//   "lockstep.checkpoint" = "1", the version of this layout
//   "lockstep.state"      = the RunState as JSON
// Checksums of all parts and of the index protect the content.
//
// The file is what `lockstep checkpoint merge` makes of a folder, and what data parallel runs of older programs wrote:
// a safetensors file with the same tensors (older ones also have "generators", which is not read) and metadata, and
//   "lockstep.sha256"     = SHA-256 of the state's JSON followed by sha256_of(tensors)
#pragma once

#include <lockstep/state/sharded/index.h>
#include <lockstep/state/sharded/shard_reader.h>
#include <lockstep/train/checkpoint/checkpoint.h>

#include <filesystem>
#include <string>

namespace lockstep::train {

inline constexpr const char* kRunVersionKey = "lockstep.checkpoint";
inline constexpr const char* kRunVersion = "1";
inline constexpr const char* kRunStateKey = "lockstep.state";
inline constexpr const char* kRunHashKey = "lockstep.sha256";

/// A checkpoint whose index was read, but no tensors.
struct SavedRun {
  std::filesystem::path path;
  RunState state;
  ShardedIndex index;  ///< of a file: one shard for each tensor, without checksums
  bool is_file = false;

  ShardReader reader(Checksums checksums) const;
};

/// Error(data) when it is damaged or not a checkpoint of a run; Error(unsupported) when a newer program wrote it;
/// Error(io) when it cannot be read.
SavedRun open_saved_run(const std::filesystem::path& path);

/// Reads all tensors, one shard at a time (of a file: one tensor), and compares checksums. Error(data) or Error(io).
void require_intact(const SavedRun& saved);

/// Reads a whole intact checkpoint in one process.
Checkpoint read_whole(const SavedRun& saved);

/// A fingerprint that is equal if two processes see the same checkpoint at its path: the content of its index or
/// header, and the sizes of its files. Empty if it cannot be read. Never throws.
std::string fingerprint(const std::filesystem::path& path) noexcept;

/// Writes a folder of parts as one file. Memory: one tensor and one shard. Errors of open_saved_run and require_intact.
void merge_saved_run(const std::filesystem::path& folder, const std::filesystem::path& file);

}  // namespace lockstep::train
