// The checkpoint of a run on disk: a folder of parts with an index, or one file.
//
// The folder is one of sharded/index.h. Its tensors are
//   "model.<name>"                 parameters and buffers (under the buffer policy local: rank 0's)
//   "optimizer.<parameter>.<field>"
//   "callbacks.<callback>.<name>"  the state of callbacks
// and others of the writer; its metadata
//   "lockstep.checkpoint" = "1", the version of this layout
//   "lockstep.state"      = the record: what the writer recorded beside tensors, a JSON object. Only its "step", the
//                           number of completed steps, is read here
// Checksums of all parts and of the index protect the content.
//
// The file is what `lockstep checkpoint merge` makes of a folder, and what data parallel runs of older programs wrote:
// a safetensors file with the same tensors (older ones also have "generators", which is not read) and metadata, and
//   "lockstep.sha256"     = SHA-256 of the record followed by sha256_of(tensors)
#pragma once

#include <lockstep/state/checkpoint.h>
#include <lockstep/state/sharded/index.h>
#include <lockstep/state/sharded/load.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::state {

inline constexpr const char* kVersionKey = "lockstep.checkpoint";
inline constexpr const char* kVersion = "1";
inline constexpr const char* kRecordKey = "lockstep.state";
inline constexpr const char* kHashKey = "lockstep.sha256";

/// The part of the state of callbacks, each under its name.
inline constexpr const char* kCallbacksPart = "callbacks";
/// The name of the callback whose tensors are an average of the parameters, by their names.
inline constexpr const char* kAverageCallback = "ema";
inline constexpr const char* kAverageWords = "the average of the weights (ema)";  ///< in messages

/// A checkpoint whose index was read, but no tensors.
struct SavedCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::string record;
  ShardedIndex index;  ///< of a file: one shard for each tensor, without checksums
  bool is_file = false;

  ShardReader reader(Checksums checksums) const;
};

/// Error(data) when it is damaged or not a checkpoint of a run; Error(unsupported) when a newer program wrote it;
/// Error(io) when it cannot be read.
SavedCheckpoint open_checkpoint(const std::filesystem::path& path);

/// Reads all tensors, one shard at a time (of a file: one tensor), and compares checksums. Error(data) or Error(io).
void require_intact(const SavedCheckpoint& saved);

/// Reads all tensors of an intact checkpoint in one process.
NamedTensors read_whole(const SavedCheckpoint& saved);

/// A fingerprint that is equal if two processes see the same checkpoint at its path: the content of its index or
/// header, and the sizes of its files. Empty if it cannot be read. Never throws.
std::string fingerprint(const std::filesystem::path& path) noexcept;

/// The number of completed steps in a record. Error(data).
std::int64_t step_of(const std::string& record);

/// Writes a folder of parts as one file. Memory: one tensor and one shard. Errors of open_checkpoint and
/// require_intact.
void merge_checkpoint(const std::filesystem::path& folder, const std::filesystem::path& file);

}  // namespace lockstep::state
