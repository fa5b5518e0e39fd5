// The checkpoint of a run that divides the model: a folder of parts, each written by a rank that holds it.
//
// The folder is one of sharded/checkpoint.h. Its tensors have the names of checkpoint.h ("model.<name>",
// "optimizer.<name>"; no "generators", as each step seeds them anew), and its metadata
//   "lockstep.checkpoint" = "1", "lockstep.state" = the RunState as JSON.
// Checksums of all parts and of the index protect the content.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint.h>

#include <filesystem>

namespace lockstep::train {

/// Writes the parts beside `folder` and renames them to it when all are on disk: `folder` appears as a whole or not at
/// all. If it is there already, its save is replaced as a whole. Each rank needs memory for one of its parts at a time.
/// A collective of all ranks of the tensors' mesh, which is `group`; all ranks throw the same kind. Error(io) where a
/// file cannot be written, or where the ranks do not see the same folder.
void save_divided(const std::filesystem::path& folder, const RunState& state, const NamedTensors& tensors,
                  const Group& group);

/// Reads it as a whole, in one process. Error(data) when a part is missing or damaged, or it is no checkpoint of a run;
/// Error(unsupported) when a newer program wrote it; Error(io) when it cannot be read.
Checkpoint load_divided(const std::filesystem::path& folder);

}  // namespace lockstep::train
