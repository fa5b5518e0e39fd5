// The writer of a run's checkpoints: in its own thread where the run asks for it, one checkpoint at a time.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint_folder.h>
#include <lockstep/train/config.h>
#include <lockstep/train/divided_checkpoint.h>
#include <lockstep/train/parallel_run.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>

namespace lockstep::train {

/// Where ranks divide the model, each writes its parts (divided_checkpoint.h), and a checkpoint is complete when all of
/// them have; else rank 0 writes a file (checkpoint.h). With checkpoint.async the state is copied, training goes on,
/// and memory for a second copy of what this rank writes is needed until that is done. Its destruction waits until this
/// rank has written; a checkpoint in parts that not all ranks have completed is given up.
class CheckpointWriter {
 public:
  CheckpointWriter(const CheckpointConfig& config, std::filesystem::path folder, const Group& group);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Writes the state as the checkpoint of its step. With checkpoint.async it returns when the state may change, and
  /// finish() completes the checkpoint; one that is still under way is completed first. A collective.
  /// Error(io), on all ranks where the model is divided and else on rank 0.
  void save(const RunState& state, ParallelRun& run);

  /// Completes the checkpoint under way, if there is one. A collective where the model is divided. Errors as above.
  void finish();

  /// Whether this rank still writes.
  bool is_writing() const;
  /// Whether finish() has something to do, and no other ranks to do it with.
  bool can_finish_alone() const { return writing_.valid() && !parts_ && !is_writing(); }
  /// Whether a checkpoint in parts is under way, which ranks finish together: the same on all of them.
  bool awaits_others() const { return parts_ != nullptr; }

 private:
  void begin(std::function<void()> write);

  const CheckpointConfig& config_;
  const std::filesystem::path folder_;
  const Group group_;
  std::unique_ptr<DividedSave> parts_;  ///< of a checkpoint under way
  std::future<void> writing_;           ///< destroyed first, which waits for the thread
};

}  // namespace lockstep::train
