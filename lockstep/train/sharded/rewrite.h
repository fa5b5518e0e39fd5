// What one process does with sharded checkpoints, without any rank: for the command line.
#pragma once

#include <lockstep/train/sharded/index.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

/// Reads every shard and compares its checksum; one sentence for each that is missing or damaged. With `only_there` it
/// looks for the files alone.
std::vector<std::string> problems_of_shards(const std::filesystem::path& folder, const ShardedIndex& index,
                                            bool only_there);

/// All tensors, whole, in one safetensors file, with the metadata of the checkpoint. Memory is needed for one tensor
/// and one shard. Errors of ShardReader and save_safetensors.
void merge_sharded(const std::filesystem::path& folder, const std::filesystem::path& file);

struct PlacementRule {
  std::string pattern;  ///< of names, as a shell has them: "fc.*"
  Placements placements;
};

/// The same tensors as another mesh would have saved them. The first rule that matches a name counts; where none does,
/// the tensor lies as before if the number of axes is the same, and is replicated else. `out` may be `folder`, and may
/// hold an earlier checkpoint, which stays until the new one is whole. Returns the new index. Errors of ShardReader;
/// invalid_argument for a rule that matches nothing or does not fit the mesh or a tensor; io.
ShardedIndex reshard(const std::filesystem::path& folder, const std::filesystem::path& out, const MeshShape& mesh,
                     const std::vector<PlacementRule>& rules);

}  // namespace lockstep::train
