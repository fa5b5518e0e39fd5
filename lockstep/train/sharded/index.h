// The index of a sharded checkpoint: which part of which tensor is in which file. Works on text, not on tensors.
//
// A sharded checkpoint is a folder:
//
//   index.json                          described below; written last, so that it names whole files only
//   save_00000007.rank_00003.safetensors  the shards that one rank wrote, under the names of their tensors
//
// index.json:
//   {"lockstep_sharded": 1, "save": 7, "mesh": {"sizes": [2, 2], "names": ["data", "model"]}, "metadata": {...},
//    "tensors": {"fc.weight": {"dtype": "F32", "shape": [5, 6], "placements": "[Shard(0), Replicate()]",
//       "shards": [{"file": "...", "offset": [0, 0], "shape": [3, 6], "sha256": "..."}, ...]}},
//    "sha256": "..."}
// where a shard's sha256 is of its bytes in the file and the last one of the JSON without it, as dump(-1) writes that.
// Every save has a number of its own, and so have its files: the files of the save before are untouched until the new
// index is in place.
#pragma once

#include <lockstep/train/sharded/box.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

struct SavedShard {
  std::string file;  ///< in the folder
  Box box;
  std::string sha256;
};

struct SavedTensor {
  std::string dtype;  ///< as in safetensors: "F32"
  BoxSizes shape;
  Placements placements;
  std::vector<SavedShard> shards;

  std::int64_t bytes() const;
};

struct ShardedIndex {
  std::int64_t save = 0;
  MeshShape mesh;
  std::map<std::string, std::string, std::less<>> metadata;
  std::map<std::string, SavedTensor, std::less<>> tensors;

  /// Every file that holds a shard, once, in order.
  std::vector<std::string> files() const;
};

inline constexpr std::string_view kIndexName = "index.json";

std::string shard_file(std::int64_t save, int rank);

/// Plans the shards of a new save: each box is written once, by the one of its holders that has the least to write so
/// far. `tensors` need no shards yet. Shards get no checksums, and have the order of safetensors in each file.
void plan_shards(ShardedIndex& index);

/// The names of the tensors, in the order in which safetensors files hold them: wider elements first, then by name.
std::vector<std::string> names_in_file_order(const ShardedIndex& index);

std::string format_index(const ShardedIndex& index);
/// Error(data), naming the file, unless every rule holds: checksum, known dtypes, shards inside their tensors with
/// as many elements. Error(unsupported) for a newer layout.
ShardedIndex parse_index(std::string_view text, const std::filesystem::path& file);

/// Error(data) where there is no index in the folder, Error(io) where it cannot be read; the text of it else.
std::string read_index_text(const std::filesystem::path& folder);
ShardedIndex read_index(const std::filesystem::path& folder);

}  // namespace lockstep::train
