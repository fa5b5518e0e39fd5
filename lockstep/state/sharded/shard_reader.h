// Reader of boxes of the tensors of a sharded checkpoint.
#pragma once

#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/index.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>

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

}  // namespace lockstep::state
