// Reader of boxes of the tensors of a sharded checkpoint.
#pragma once

#include <lockstep/train/safetensors_stream.h>
#include <lockstep/train/sharded/index.h>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::train {

/// Opens only the files that are asked for. A shard is read as a whole, and its checksum compared, also where only a
/// part of it is wanted: memory is needed for one shard at a time. Not thread-safe.
class ShardReader {
 public:
  ShardReader(std::filesystem::path folder, ShardedIndex index);

  const ShardedIndex& index() const { return index_; }

  /// Copies the box of a tensor of the index into `into`, of the box's sizes and the tensor's dtype.
  /// Error(data), naming file and tensor, for a shard that is missing, damaged or of another shape than the index says;
  /// Error(io) where a file cannot be read.
  void read(const std::string& name, const Box& box, at::Tensor& into);
  /// The same into a new tensor.
  at::Tensor read(const std::string& name, const Box& box);

  /// Reads and compares a whole shard. Errors as above.
  at::Tensor read_shard(const std::string& name, const SavedShard& shard);

 private:
  SafetensorsReader& open(const std::string& name, const std::string& file);

  std::filesystem::path folder_;
  ShardedIndex index_;
  std::map<std::string, SafetensorsReader> files_;
};

/// Bytes of a contiguous CPU tensor as 64 hexadecimal digits.
std::string sha256_of_values(const at::Tensor& tensor);

}  // namespace lockstep::train
