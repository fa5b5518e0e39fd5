// The index of weights in several files, as Hugging Face's tools write it: model.safetensors.index.json and
// pytorch_model.bin.index.json. Needs no libtorch.
//
//   {"metadata": {"total_size": bytes of all tensors}, "weight_map": {name of a tensor: file in the index's folder}}
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::state {

/// Longest index that is read, in bytes.
inline constexpr std::uint64_t kMaxShardIndex = 100'000'000;

/// Files by the names of tensors.
using ShardFiles = std::map<std::string, std::string, std::less<>>;

/// Error(data), naming `file`, for other JSON, a repeated name, and files that are not names within the folder.
ShardFiles parse_shard_index(std::string_view json, const std::filesystem::path& file);

std::string format_shard_index(const ShardFiles& files, std::uint64_t total_bytes);

/// "model-00002-of-00003.safetensors" for the second of three.
std::string shard_name(std::size_t number, std::size_t of);

}  // namespace lockstep::state
