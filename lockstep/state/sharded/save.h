// A save of a state that is distributed over ranks, in three steps, so that the long step, writing, can run on another
// thread.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/sharded/index.h>

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::state {

/// A part of a tensor that this rank holds.
struct HeldPart {
  Box box;
  at::Tensor values;  ///< of the box's sizes, any strides and device
};

/// A tensor in parts that do not follow from placements, such as the state of a sharded optimizer.
struct TensorInParts {
  std::string dtype;  ///< as in safetensors
  BoxSizes shape;
  Holders holders;            ///< each part is inside one of these; the same on all ranks
  std::vector<HeldPart> own;  ///< cover this rank's boxes
};

/// The state that the ranks of a group save together. All ranks have the same names.
struct SavedState {
  Group group;
  MeshShape mesh;  ///< of all ranks of the group
  /// Global tensors of that mesh, or ordinary ones that are equal on all ranks.
  NamedTensors tensors;
  std::map<std::string, TensorInParts> in_parts;
};

/// The state that the ranks of `group` save together. Each rank passes the tensors that it holds; tensors of one name
/// must be equal on all ranks that hold them. A collective. Error(mismatch) if shapes or dtypes of one name differ.
SavedState held_by_some(NamedTensors own, const Group& group);

/// The copies that a save makes of the tensors in its constructor.
enum class SavedValues {
  in_place,  ///< no copies: write() reads the tensors, one after the other; they must not change until then
  copied,    ///< a copy of all that this rank writes: they may change at once
};

/// Each rank that sees the folder of rank 0 writes a part. Parts that no such rank holds are sent to one of these
/// ranks: on hosts that share no file system, the hosts without rank 0 write nothing. Memory beyond the state itself:
/// one shard (kMaxShardBytes) at a time; with SavedValues::copied all that this rank writes. Errors are those of
/// save_sharded. A save that is destroyed before it is committed leaves only files that the next save removes.
class ShardedSave {
 public:
  /// Agrees with the other ranks on the shards that each of them writes. Rank 0's `folder` and `metadata` are used. A
  /// collective.
  ShardedSave(std::filesystem::path folder, SavedState state, const SavedMetadata& metadata, SavedValues values);
  ShardedSave(const ShardedSave&) = delete;
  ShardedSave& operator=(const ShardedSave&) = delete;
  ~ShardedSave();

  /// Writes this rank's file; an error is kept for commit(). With SavedValues::copied on any thread, and without the
  /// other ranks; else a collective.
  void write() noexcept;

  /// After write(): makes the save the folder's checkpoint; then rank 0 calls `publish`. A collective; all ranks throw
  /// when one had an error.
  void commit(const std::function<void()>& publish = {});

 private:
  void agree(const std::filesystem::path& folder);
  void write_shards();
  at::Tensor values_of(const PlannedShard& planned);
  at::Tensor own_values(const std::string& name, const Box& box) const;
  at::Tensor carry(const PlannedShard& planned, at::Tensor values) const;

  SavedState state_;
  SavedValues values_;
  std::filesystem::path folder_;
  ShardedIndex index_;
  std::vector<PlannedShard> plan_;
  std::map<std::string, at::Tensor> copies_;              ///< by name in this rank's file, with SavedValues::copied
  std::optional<std::pair<std::string, HeldPart>> part_;  ///< the placed tensor of the last request
  std::string file_;                                      ///< of this rank
  std::optional<Error> problem_;
  bool committed_ = false;
};

}  // namespace lockstep::state
