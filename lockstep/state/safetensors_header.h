// The header of a safetensors file: names, dtypes, shapes and offsets. Works on bytes and text, not on tensors.
//
// The file is: 8 bytes, the header's length as a little-endian integer; the header, a JSON object that maps each name
// to {"dtype", "shape", "data_offsets": [begin, end]}, and "__metadata__" to an object of strings; then the tensors'
// bytes, little-endian, row major, without gaps. Offsets count from the end of the header.
//
// And the index of weights in several files, as Hugging Face's tools write it: model.safetensors.index.json and
// pytorch_model.bin.index.json,
//
//   {"metadata": {"total_size": bytes of all tensors}, "weight_map": {name of a tensor: file in the index's folder}}
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::state {

/// Longest header that readers of the format accept, in bytes.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL; a file may have others, which are not read
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their bytes
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Size of one element: 4 for "F32"; 0 for a dtype that is not known.
std::uint64_t safetensors_element_bytes(std::string_view dtype);

/// Gives each entry its offsets: wider elements first, then by name, so that every tensor is aligned to its elements.
void lay_out(SafetensorsHeader& header);

/// Length and JSON, padded with blanks so that the data begins at a multiple of 8 bytes.
/// Error(invalid_argument) for a name that is not UTF-8 or that the format reserves.
std::string format_safetensors_header(const SafetensorsHeader& header);

/// Reads the JSON of a file that has `data_bytes` bytes after its header. Error(data), naming `file` and the tensor,
/// unless all rules hold: JSON without repeated keys, sizes that fit their offsets, and tensors that cover the data
/// without overlap or gap.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::filesystem::path& file);

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
