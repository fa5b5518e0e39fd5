// The index of a sharded checkpoint: the file of each part of each tensor. Works on text, not on tensors.
//
// A sharded checkpoint is a folder:
//
//   index.json                          described below; written last, so that it names only complete files
//   save_00000007.rank_00003.safetensors  the shards that one rank wrote: under the name of the tensor, followed by
//                                       "[64,0]", the shard's offset, where the file has several of that tensor
//
// index.json:
//   {"lockstep_sharded": 2, "save": 7, "mesh": {"sizes": [2, 2], "names": ["data", "model"]}, "metadata": {...},
//    "tensors": {"fc.weight": {"dtype": "F32", "shape": [5, 6], "placements": "[Shard(0), Replicate()]",
//       "shards": [{"file": "...", "offset": [0, 0], "shape": [3, 6], "sha256": "..."}, ...]}},
//    "sha256": "..."}
// (version 1 is the same with at most one shard of a tensor in each file), where a shard's sha256 is of its bytes in
// the file and the last one of the JSON without it, as dump(-1) writes that. Every save and its files have their own
// number: the files of the previous save are not touched until the new index is in place.
#pragma once

#include <lockstep/state/sharded/box.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::state {

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

/// The maximum bytes of a shard, unless a single row is larger: readers and writers need memory for one shard at a
/// time.
inline constexpr std::int64_t kMaxShardBytes = 64 << 20;

/// A shard of an index in its file.
struct PlannedShard {
  std::string tensor;
  std::size_t shard = 0;  ///< index in the tensor's shards
  std::string name;       ///< in the file
  int writer = 0;
  int source = 0;  ///< a rank that holds it: the writer, if it holds the shard

  bool operator==(const PlannedShard&) const = default;
};

/// Plans the shards of a new save: each part is written once, by the holder with the fewest bytes to write so far.
/// Parts that several ranks hold are cut, so that each of these ranks writes about the same amount. Tensors whose parts
/// do not follow from their placements have them in `held`. Only `writers` write; empty: all ranks. If no writer holds
/// a part, the writer with the fewest bytes gets it from the first holder. Shards get no checksums.
std::vector<PlannedShard> plan_shards(ShardedIndex& index, const std::map<std::string, Holders>& held = {},
                                      const std::vector<int>& writers = {});

/// The names that the shards of a tensor have in their files.
std::vector<std::string> names_in_files(const std::string& tensor, const std::vector<SavedShard>& shards);

std::string format_index(const ShardedIndex& index);
/// Error(data), naming the file, if a rule is broken: checksum, known dtypes, shards inside their tensors with as many
/// elements. Error(unsupported) for a newer layout whose checksum is right.
ShardedIndex parse_index(std::string_view text, const std::filesystem::path& file);

/// The text of the index. Error(data) if there is no index in the folder, or no file of that name; Error(io) if it
/// cannot be read.
std::string read_index_text(const std::filesystem::path& folder);
ShardedIndex read_index(const std::filesystem::path& folder);

/// Makes the folder where there is none and returns a number that no file in it has. Error(io).
std::int64_t next_save_number(const std::filesystem::path& folder);

/// Writes an empty file of a random name, by which other processes can check that they see the same folder. The next
/// finished save removes it if its writer did not. Error(io).
std::filesystem::path put_mark(const std::filesystem::path& folder, std::int64_t save);

/// Writes the index, which makes the save the folder's checkpoint, and then removes the files of all other saves,
/// including those of killed ones. Error(io) leaves the former checkpoint unchanged.
void finish_save(const std::filesystem::path& folder, const ShardedIndex& index);

/// Removes a file of a save that failed, unless the folder's index is of that save (it was written, and a later step
/// failed). Never throws.
void take_back(const std::filesystem::path& folder, std::int64_t save, const std::string& file) noexcept;

}  // namespace lockstep::state
