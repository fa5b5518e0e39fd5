#include <lockstep/train/sharded/index.h>

#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/train/safetensors_header.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

namespace lockstep::train {

std::int64_t SavedTensor::bytes() const {
  return whole_box(shape).elements() * static_cast<std::int64_t>(safetensors_element_bytes(dtype));
}

std::vector<std::string> ShardedIndex::files() const {
  std::set<std::string> files;
  for (const auto& [name, tensor] : tensors) {
    for (const auto& shard : tensor.shards) files.insert(shard.file);
  }
  return {files.begin(), files.end()};
}

std::string shard_file(std::int64_t save, int rank) {
  return fmt::format("save_{:08}.rank_{:05}.safetensors", save, rank);
}

std::vector<std::string> names_in_file_order(const ShardedIndex& index) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : index.tensors) names.push_back(name);
  std::ranges::stable_sort(names, std::ranges::greater(), [&](const std::string& name) {
    return safetensors_element_bytes(index.tensors.at(name).dtype);
  });
  return names;
}

void plan_shards(ShardedIndex& index) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(index.mesh.ranks()));
  for (const auto& name : names_in_file_order(index)) {
    auto& tensor = index.tensors.at(name);
    tensor.shards.clear();
    const auto element = static_cast<std::int64_t>(safetensors_element_bytes(tensor.dtype));
    for (const auto& [box, holders] : boxes_of(tensor.shape, tensor.placements, index.mesh)) {
      const int writer =
          *std::ranges::min_element(holders, {}, [&](int rank) { return bytes[static_cast<std::size_t>(rank)]; });
      bytes[static_cast<std::size_t>(writer)] += box.elements() * element;
      tensor.shards.push_back({.file = shard_file(index.save, writer), .box = box, .sha256 = {}});
    }
  }
}

std::string read_index_text(const std::filesystem::path& folder) {
  const auto file = folder / kIndexName;
  std::error_code failed;
  if (!std::filesystem::exists(file, failed)) {
    fail(ErrorKind::data, "sharded checkpoint",
         "{} holds no {}: it is no sharded checkpoint, or the save that was to make it never ended", folder.string(),
         kIndexName);
  }
  auto text = read_file(file);
  if (!text) fail(ErrorKind::io, "sharded checkpoint", "cannot read {}", file.string());
  return *std::move(text);
}

ShardedIndex read_index(const std::filesystem::path& folder) {
  return parse_index(read_index_text(folder), folder / kIndexName);
}

}  // namespace lockstep::train
