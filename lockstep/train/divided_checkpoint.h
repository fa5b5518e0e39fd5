// The checkpoint of a run that divides the model: a folder of parts, each written by a rank that holds it.
//
// The folder is one of sharded/checkpoint.h. Its tensors have the names of checkpoint.h ("model.<name>",
// "optimizer.<name>"; no "generators", as each step seeds them anew), and its metadata
//   "lockstep.checkpoint" = "1", "lockstep.state" = the RunState as JSON.
// Checksums of all parts and of the index protect the content.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/sharded/sharded_save.h>

#include <filesystem>

namespace lockstep::train {

/// A save, in the steps of sharded/sharded_save.h: the parts are written beside `folder`, and that is renamed to it
/// when all are on disk, so that `folder` appears as a whole or not at all. If it is there already, its save is
/// replaced as a whole. Memory: one of a rank's parts at a time; with SavedValues::copied all that this rank writes.
/// Collectives, on which all ranks throw the same kind: the constructor and commit(). Error(io) where a file cannot be
/// written, or where the ranks do not see the same folder.
class DividedSave {
 public:
  /// `group`: all ranks of the tensors' mesh.
  DividedSave(std::filesystem::path folder, const RunState& state, const NamedTensors& tensors, const Group& group,
              SavedValues values);
  void write() noexcept { parts_.write(); }
  void commit();

 private:
  Group group_;
  std::filesystem::path folder_;
  std::filesystem::path place_;  ///< of the parts, until they are complete
  ShardedSave parts_;
};

/// Reads it as a whole, in one process. Error(data) when a part is missing or damaged, or it is no checkpoint of a run;
/// Error(unsupported) when a newer program wrote it; Error(io) when it cannot be read.
Checkpoint load_divided(const std::filesystem::path& folder);

}  // namespace lockstep::train
