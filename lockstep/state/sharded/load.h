// Reading of sharded checkpoints: boxes of their tensors; global tensors, their mesh, and the parts of load_sharded, in
// which each rank fills its tensors with saved values. Errors of one rank are thrown on all of them.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/index.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep::state {

enum class Checksums {
  compare,           ///< a shard is read as a whole, also where only a part of it is wanted
  compared_already,  ///< only the wanted rows of a shard are read
};

/// Opens only the files that are needed. Memory is needed for one shard at a time. Not thread-safe.
class ShardReader {
 public:
  ShardReader(std::filesystem::path folder, ShardedIndex index, Checksums checksums = Checksums::compare);

  const ShardedIndex& index() const { return index_; }

  /// Copies the box of a tensor of the index into `into`, of the box's sizes and the tensor's dtype. Error(data),
  /// naming file and tensor, for a shard that is missing, damaged or of another shape than in the index; Error(io) if a
  /// file cannot be read.
  void read(const std::string& name, const Box& box, at::Tensor& into);
  /// Copies the box into a new tensor.
  at::Tensor read(const std::string& name, const Box& box);

  /// Reads and compares a whole shard of a tensor. Errors as above.
  at::Tensor read_shard(const std::string& name, std::size_t shard);
  /// Reads and compares all shards, one after the other.
  void compare_all();

 private:
  SafetensorsReader& open(const std::string& name, const std::string& file);
  const SafetensorsEntry& entry_of(const std::string& name, std::size_t shard);

  std::filesystem::path folder_;
  ShardedIndex index_;
  Checksums checksums_;
  std::map<std::string, SafetensorsReader> files_;
};

/// Bytes of a contiguous CPU tensor as 64 hexadecimal digits.
std::string sha256_of_values(const at::Tensor& tensor);

/// Returns the Error of `work`, nullopt if there was none. Other exceptions become Error(io).
std::optional<Error> problem_of(const std::function<void()>& work);

/// Throws on all ranks when any of them has a problem: a rank throws its own problem, or else that of the first rank
/// with one. A collective, without communication in a null group.
void all_or_none(const Group* group, const std::optional<Error>& problem);

/// The two halves of that function, for ranks that exchange more data at the same time: the conversion of a problem to
/// text, empty for none; and the throw if any of all ranks' texts has a problem.
std::string problem_text(const std::optional<Error>& problem);
void throw_problems(const std::optional<Error>& own, const std::vector<std::string>& texts);

/// Copies a box of the saved tensor of this name into a tensor of the box's sizes.
using ReadBox = std::function<void(const std::string& name, const Box& box, at::Tensor& into)>;

/// Reads this rank's part of a global tensor, or the whole of an ordinary one, into it. Not a collective.
/// Error(invalid_argument) for a view whose values were fetched from other ranks.
void fill(const std::string& name, const at::Tensor& tensor, const ReadBox& read);

/// The index that rank 0 reads, so that all ranks read the same save. A collective, without communication in a null
/// group.
ShardedIndex shared_index(const std::filesystem::path& folder, const Group* group);

/// Compares all tensors with the index, then fills them. A collective, like shared_index. Errors of load_sharded.
void fill_all(const std::filesystem::path& folder, ShardedIndex index, const NamedTensors& tensors, const Group* group);

/// The mesh of the global tensors; nullopt where all are ordinary. Error(invalid_argument) that names two tensors on
/// different meshes.
std::optional<Mesh> mesh_of_tensors(const NamedTensors& tensors);

MeshShape shape_of(const Mesh& mesh);

/// The placements of a tensor when its partial values are reduced; an ordinary one counts as replicated on the mesh.
Placements finished_placements(const at::Tensor& tensor, std::size_t axes);

}  // namespace lockstep::state
