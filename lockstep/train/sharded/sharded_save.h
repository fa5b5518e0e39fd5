// A save of global tensors in three steps, so that the long one, writing, can be another thread's.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/sharded/checkpoint.h>
#include <lockstep/train/sharded/index.h>

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::train {

/// What a save takes from the tensors before it returns from its constructor.
enum class SavedValues {
  in_place,  ///< nothing: they are read by write(), one after the other, and must not change until then
  copied,    ///< a copy of all that this rank writes: they may change at once
};

/// Errors are those of save_sharded. A save that is destroyed before it is committed leaves nothing behind but files
/// that the next one removes.
class ShardedSave {
 public:
  /// Agrees with the other ranks on what each of them writes. A collective of the tensors' mesh.
  ShardedSave(std::filesystem::path folder, const NamedTensors& tensors, const SavedMetadata& metadata,
              SavedValues values);
  ShardedSave(const ShardedSave&) = delete;
  ShardedSave& operator=(const ShardedSave&) = delete;
  ~ShardedSave();

  /// Writes this rank's file; an error is kept for commit(). With SavedValues::copied on any thread, and without the
  /// other ranks; else a collective.
  void write() noexcept;

  /// After write(): makes the save the folder's checkpoint. A collective; all ranks throw when one had an error.
  void commit();

 private:
  void write_shards();
  at::Tensor values_of(const std::string& name) const;

  std::filesystem::path folder_;
  NamedTensors tensors_;  ///< or, copied, the parts that this rank writes
  SavedValues values_;
  std::optional<Group> group_;
  ShardedIndex index_;
  std::string file_;  ///< of this rank
  std::optional<Error> problem_;
  bool committed_ = false;
};

}  // namespace lockstep::train
