// The checkpoints of one run in a folder: folders of parts step_00000123.sharded, and files step_00000123.safetensors
// of older programs. Their writer works in its own thread if it is asynchronous, one checkpoint at a time.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/state/saved_checkpoint.h>
#include <lockstep/state/sharded/save.h>

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
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

struct WriterOptions {
  std::int64_t keep = 3;  ///< how many of the newest checkpoints to keep
  bool async = false;     ///< the parts are copied, and the caller continues during the write
};

/// Each rank writes a part of the state (sharded/save.h documents the memory for that) next to the checkpoint's
/// path. The folder of the parts is renamed to that path when all parts are on disk, so the checkpoint appears as a
/// whole or not at all. An existing save is replaced as a whole. The destructor waits until this rank has written; an
/// unfinished checkpoint is discarded.
class CheckpointWriter {
 public:
  CheckpointWriter(const WriterOptions& options, std::filesystem::path folder, const Group& group);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Writes the state, with its record, as the checkpoint of its step, then removes all but the newest of them. With
  /// async it returns when the state may change, and finish() completes the checkpoint; an earlier checkpoint in
  /// progress is completed first. A collective. Error(io) on all ranks leaves older checkpoints as they were.
  void save(std::int64_t step, const std::string& record, SavedState tensors);

  /// Completes the checkpoint in progress, if there is one. A collective. Errors as above.
  void finish();

  /// finish() at the end of a run. If this run had nothing to save, rank 0 then removes the remains of a killed run:
  /// parts of saves and of removals, and checkpoints beyond `keep`. A collective. Errors as above; a failed
  /// removal is only a warning.
  void finish_run();

  /// Whether this rank is still writing.
  bool is_writing() const;
  /// Whether finish() has something to do: the same on all ranks.
  bool is_under_way() const { return save_ != nullptr; }

 private:
  void publish(std::int64_t step) const;

  const WriterOptions options_;
  const std::filesystem::path folder_;
  const Group group_;
  std::int64_t step_ = 0;              ///< of the checkpoint in progress
  std::unique_ptr<ShardedSave> save_;  ///< of the checkpoint in progress
  std::future<void> writing_;          ///< destroyed first, which waits for the thread
};

}  // namespace lockstep::state
