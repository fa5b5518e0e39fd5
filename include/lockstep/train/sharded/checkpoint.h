// Checkpoints of global tensors: each rank writes its shards, and any mesh, placements and world size reads them.
//
//     save_sharded("ckpt", {{"fc.weight", weight}, {"fc.bias", bias}});          // on 8 ranks, a mesh {2, 4}
//     load_sharded("ckpt", {{"fc.weight", weight}, {"fc.bias", bias}});          // on 3 ranks, any placements
//
// The folder holds index.json and safetensors files (docs/global.md). All ranks must see the same folder, so on several
// hosts it has to be on a shared file system. Not thread-safe beside other collectives of the mesh. `lockstep
// checkpoint` inspects such a folder, merges it to one file, and reshards it.
#pragma once

#include <lockstep/train/named_tensors.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep::train {

using SavedMetadata = std::map<std::string, std::string, std::less<>>;

/// Writes global tensors of one mesh. Ordinary tensors may be among them (a step counter, a buffer): they must
/// be equal on all ranks. A box that several ranks hold is written by one of them; partial tensors are reduced
/// for the file, and stay partial. `metadata` is rank 0's.
///
/// The folder may hold an earlier save: that stays whole and readable until this one is, whatever happens to the
/// processes; only then its files are removed. A collective of the mesh: every rank passes the same names. Errors, on
/// all ranks: mismatch where names, shapes or placements differ between ranks; io (a full disk) naming the rank and the
/// file, after which nothing of this save is left; invalid_argument for tensors of several meshes, or none.
void save_sharded(const std::filesystem::path& folder, const NamedTensors& tensors, const SavedMetadata& metadata = {});

/// Fills tensors in place, each with the saved one of its name; it keeps its mesh and placements. Each rank
/// reads the shards that overlap its part. Values are those that were saved, bit for bit. Other saved tensors are not
/// read.
///
/// A collective where there is a global tensor among them; ordinary tensors are filled as a whole, so a process without
/// any mesh can load them, too. Errors, on all ranks: data, listing every name that is missing and every tensor of
/// another shape or dtype, before anything is written; data or io where a shard is missing or damaged, after which the
/// tensors hold a mix of old and new.
void load_sharded(const std::filesystem::path& folder, const NamedTensors& tensors);

/// The metadata that save_sharded was given. Reads the index only; no collective.
SavedMetadata load_sharded_metadata(const std::filesystem::path& folder);

/// Gives a new optimizer the state that was saved as tensors "<prefix><parameter>.<field>": save what optimizer_state
/// (optimizer.h) returns, and load it with this. Parameters without saved state get none. Errors of load_sharded, and
/// data where the state is of a parameter that is not among `parameters`, or of another kind of optimizer.
void load_sharded_optimizer(const std::filesystem::path& folder, const std::string& prefix,
                            torch::optim::Optimizer& optimizer,
                            const std::vector<std::pair<std::string, at::Tensor>>& parameters);

}  // namespace lockstep::train
