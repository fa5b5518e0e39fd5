// The writer of a run's checkpoints: in its own thread where the run asks for it, one checkpoint at a time.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint/checkpoint_folder.h>
#include <lockstep/train/config.h>
#include <lockstep/train/sharded/sharded_save.h>

#include <filesystem>
#include <future>
#include <memory>

namespace lockstep::train {

/// Each rank writes a part of the state (sharded/sharded_save.h, which says what memory that needs) beside the
/// checkpoint's place, and the folder of the parts is renamed to it when all are on disk: so it appears as a whole or
/// not at all. If it is there already, its save is replaced as a whole. With checkpoint.async the parts are copied, and
/// training goes on meanwhile. Its destruction waits until this rank has written; a checkpoint that was not finished is
/// given up.
class CheckpointWriter {
 public:
  CheckpointWriter(const CheckpointConfig& config, std::filesystem::path folder, const Group& group);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Writes the state as the checkpoint of its step, then removes all but the newest of them. With checkpoint.async it
  /// returns when the state may change, and finish() completes the checkpoint; one that is still under way is completed
  /// first. A collective. Error(io) on all ranks leaves older checkpoints as they were.
  void save(const RunState& state, SavedState tensors);

  /// Completes the checkpoint under way, if there is one. A collective. Errors as above.
  void finish();

  /// finish() at the end of a run. Rank 0 then removes what a killed run left that this one, having had nothing to
  /// save, has not: parts of saves and of removals, and checkpoints beyond checkpoint.keep. A collective. Errors as
  /// above; what cannot be removed is a warning.
  void finish_run();

  /// Whether this rank still writes.
  bool is_writing() const;
  /// Whether finish() has something to do: the same on all ranks.
  bool is_under_way() const { return save_ != nullptr; }

 private:
  void publish(std::int64_t step) const;

  const CheckpointConfig& config_;
  const std::filesystem::path folder_;
  const Group group_;
  std::int64_t step_ = 0;              ///< of the checkpoint under way
  std::unique_ptr<ShardedSave> save_;  ///< of the checkpoint under way
  std::future<void> writing_;          ///< destroyed first, which waits for the thread
};

}  // namespace lockstep::train
