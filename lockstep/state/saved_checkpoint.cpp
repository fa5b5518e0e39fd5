// Reading and verification of checkpoints: sharded folders by their checksums, single files as an index of one shard.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/saved_checkpoint.h>
#include <lockstep/state/sharded/rewrite.h>
#include <lockstep/state/tensors.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <system_error>
#include <utility>

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

fs::path place_of_index(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed) ? path / kIndexName : path;
}

[[noreturn]] void damaged(const fs::path& path, std::string text) {
  throw Error(ErrorKind::data, "checkpoint", std::move(text), {place_of_index(path).string(), 0});
}

/// An index for a single file, which describes it as the only file of a folder of parts.
ShardedIndex index_of_file(const fs::path& file) {
  const SafetensorsReader reader(file);
  ShardedIndex index{
      .save = 1, .mesh = {.sizes = {1}, .names = {"0"}}, .metadata = reader.header().metadata, .tensors = {}};
  for (const auto& entry : reader.header().entries) {
    SavedTensor tensor{.dtype = entry.dtype, .shape = entry.shape, .placements = Placements(1), .shards = {}};
    tensor.shards.push_back({.file = file.filename().string(), .box = whole_box(entry.shape), .sha256 = {}});
    index.tensors.emplace(entry.name, std::move(tensor));
  }
  return index;
}

const std::string& find_key(const SavedCheckpoint& saved, const char* key) {
  const auto found = saved.index.metadata.find(key);
  if (found == saved.index.metadata.end()) {
    damaged(saved.path, fmt::format("this is not a checkpoint of a run: its metadata has no {}", key));
  }
  return found->second;
}

/// The content of "lockstep.sha256".
std::string hash_of_content(std::string_view record, ShardReader& reader) {
  Sha256 of_tensors;
  for (const auto& [name, tensor] : reader.index().tensors) {
    add_to_hash(of_tensors, name, reader.read(name, whole_box(tensor.shape)));
  }
  Sha256 hash;
  hash.update(record);
  hash.update(of_tensors.hex());
  return hash.hex();
}

}  // namespace

ShardReader SavedCheckpoint::reader(Checksums checksums) const {
  return {is_file ? path.parent_path() : path, index, is_file ? Checksums::compared_already : checksums};
}

SavedCheckpoint open_checkpoint(const fs::path& path) {
  SavedCheckpoint saved{.path = path, .record = {}, .index = {}};
  std::error_code failed;
  saved.is_file = !fs::is_directory(path, failed);
  saved.index = saved.is_file ? index_of_file(path) : read_index(path);
  if (const auto& version = find_key(saved, kVersionKey); version != kVersion) {
    throw Error(ErrorKind::unsupported, "checkpoint",
                fmt::format("its layout is version {}, this program reads {}", version, kVersion),
                {place_of_index(path).string(), 0});
  }
  saved.record = find_key(saved, kRecordKey);
  saved.step = step_of(saved.record);
  if (saved.is_file) find_key(saved, kHashKey);
  return saved;
}

void require_intact(const SavedCheckpoint& saved) {
  auto reader = saved.reader(Checksums::compare);
  if (!saved.is_file) return reader.compare_all();
  const auto hash = hash_of_content(saved.record, reader);
  if (const auto& written = find_key(saved, kHashKey); hash != written) {
    damaged(saved.path, fmt::format("the file is damaged: its SHA-256 is {}, it was written with {}", hash, written));
  }
}

NamedTensors read_whole(const SavedCheckpoint& saved) {
  auto reader = saved.reader(Checksums::compared_already);
  NamedTensors tensors;
  for (const auto& [name, tensor] : saved.index.tensors) {
    tensors.emplace(name, reader.read(name, whole_box(tensor.shape)));
  }
  return tensors;
}

std::int64_t step_of(const std::string& record) {
  try {
    return nlohmann::json::parse(record).at("step").get<std::int64_t>();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "checkpoint", "its state is not what a run writes: {}", json_mistake(error));
  }
}

std::string fingerprint(const fs::path& path) noexcept {
  try {
    const auto saved = open_checkpoint(path);
    auto text = format_index(saved.index);
    const auto folder = saved.is_file ? path.parent_path() : path;
    for (const auto& file : saved.index.files()) text += fmt::format("{}\n", fs::file_size(folder / file));
    Sha256 hash;
    hash.update(text);
    return hash.hex();
  } catch (const std::exception&) {
    return {};
  }
}

void merge_checkpoint(const fs::path& folder, const fs::path& file) {
  const auto saved = open_checkpoint(folder);
  auto reader = saved.reader(Checksums::compare);
  auto metadata = saved.index.metadata;
  metadata[kHashKey] = hash_of_content(saved.record, reader);
  merge_sharded(reader, file, metadata);
}

}  // namespace lockstep::state
