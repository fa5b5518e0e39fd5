// Checking, merging and resharding of sharded checkpoints in one process, for the command line.
#pragma once

#include <lockstep/state/sharded/index.h>
#include <lockstep/state/sharded/load.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::state {

/// Reads every shard and compares its checksum; returns one sentence for each missing or damaged shard. With
/// `only_there` it only checks that the files exist.
std::vector<std::string> problems_of_shards(const std::filesystem::path& folder, const ShardedIndex& index,
                                            bool only_there);

/// Writes all tensors of a checkpoint, as whole tensors, to one safetensors file with this metadata. Memory is needed
/// for one tensor and one shard. Errors of ShardReader and save_safetensors.
void merge_sharded(ShardReader& reader, const std::filesystem::path& file,
                   const std::map<std::string, std::string, std::less<>>& metadata);

/// Writes the tensors whose names begin with `prefix`, without the prefix, in the form of Hugging Face's tools: files
/// of at most `shard_bytes` each (a larger tensor has its own file), model-00001-of-0000N.safetensors, and
/// model.safetensors.index.json, in a folder that is made. Returns the number of files. The only metadata is {"format":
/// "pt"}, which those tools require.
std::size_t merge_to_shards(ShardReader& reader, const std::filesystem::path& folder, std::uint64_t shard_bytes,
                            const std::string& prefix = {});

struct PlacementRule {
  std::string pattern;  ///< of names, in the form of shell patterns: "fc.*"
  Placements placements;
};

/// Writes the same tensors in the form in which another mesh would have saved them. The first rule that matches a name
/// counts; without one, the placements stay if the number of axes is the same, else the tensor is replicated. `out` may
/// be `folder`, and may hold an earlier checkpoint, which remains until the new one is complete. Returns the new index.
/// Errors: those of ShardReader; invalid_argument for a rule that matches nothing or does not fit the mesh or a tensor;
/// io.
ShardedIndex reshard(const std::filesystem::path& folder, const std::filesystem::path& out, const MeshShape& mesh,
                     const std::vector<PlacementRule>& rules);

}  // namespace lockstep::state
