// The writer of a run's checkpoints: in its own thread if it is asynchronous, one checkpoint at a time.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/sharded/sharded_save.h>

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

namespace lockstep::state {

struct WriterOptions {
  std::int64_t keep = 3;  ///< how many of the newest checkpoints to keep
  bool async = false;     ///< the parts are copied, and the caller continues during the write
};

/// Each rank writes a part of the state (sharded/sharded_save.h documents the memory for that) next to the checkpoint's
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
