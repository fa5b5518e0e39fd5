// Named tensors, the form in which states are saved, compared and sent; and sharded checkpoints of global tensors: each
// rank writes its shards, and they can be loaded with any mesh, placements and world size.
//
//     save_sharded("ckpt", {{"fc.weight", weight}, {"fc.bias", bias}});          // on 8 ranks, a mesh {2, 4}
//     load_sharded("ckpt", {{"fc.weight", weight}, {"fc.bias", bias}});          // on 3 ranks, any placements
//
// The folder holds index.json and safetensors files (docs/global.md). Ranks without access to rank 0's folder send
// their shards to a rank with access; to load, all ranks need access to the same folder. Not thread-safe beside other
// collectives of the mesh, or other uses of the tensors. `lockstep checkpoint` inspects such a folder, merges it into
// one file, or reshards it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace at {
class Tensor;
}

namespace lockstep::state {

/// Ordered by name, byte by byte. Tensors of any shape and dtype; copies share their memory.
using NamedTensors = std::map<std::string, at::Tensor, std::less<>>;

/// Texts that are saved beside tensors.
using SavedMetadata = std::map<std::string, std::string, std::less<>>;

/// SHA-256 in hexadecimal over the tensors in the order of their names. Each adds the line "<name> <dtype>
/// [<d0>,<d1>,...]\n" (dtype as libtorch prints it, e.g. "Float") and then its elements, row major, in this machine's
/// byte order. A collective when global tensors are among them.
std::string sha256_of(const NamedTensors& tensors);

/// Writes global tensors of one mesh. Ordinary tensors may be among them (a step counter, a buffer): they must be equal
/// on all ranks. Values on several ranks are written once: each of these ranks writes a part. Partial tensors are
/// reduced for the file; the tensors in memory stay partial. The `metadata` of rank 0 is saved.
///
/// The folder may hold an earlier checkpoint. The save is atomic: the earlier checkpoint stays complete and readable
/// until the new one is complete, even if processes are killed; only then its files are removed. A collective of the
/// mesh: every rank passes the same names. Errors, on all ranks: mismatch where names, shapes or placements differ
/// between ranks; io (such as a full disk) naming the rank and the file, after which the files of this save are
/// removed; invalid_argument for tensors of several meshes, or no tensors.
void save_sharded(const std::filesystem::path& folder, const NamedTensors& tensors, const SavedMetadata& metadata = {});

/// Fills tensors in place, each with the saved tensor of the same name; tensors keep their mesh and placements. Each
/// rank reads the shards that overlap its part. Values are equal to the saved ones, bit for bit. Saved tensors with
/// other names are not read.
///
/// A collective when a global tensor is among them. Ordinary tensors are filled completely, so a process without a mesh
/// can load them, too. Errors, on all ranks: data, listing every missing name and every tensor of another shape or
/// dtype, before any tensor is changed; data or io where a shard is missing or damaged, after which the tensors hold a
/// mix of old and new values.
void load_sharded(const std::filesystem::path& folder, const NamedTensors& tensors);

/// The metadata that save_sharded was given. Reads the index only; no collective.
SavedMetadata load_sharded_metadata(const std::filesystem::path& folder);

}  // namespace lockstep::state
