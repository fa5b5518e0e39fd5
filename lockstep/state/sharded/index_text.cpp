// The index as JSON, and back.
#include <lockstep/base/error.h>
#include <lockstep/base/json_words.h>
#include <lockstep/base/sha256.h>
#include <lockstep/state/safetensors_header.h>
#include <lockstep/state/sharded/index.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace lockstep::state {
namespace {

using nlohmann::json;

constexpr int kLayoutVersion = 2, kOldestLayoutVersion = 1;
constexpr const char* kVersionName = "lockstep_sharded";
constexpr const char* kChecksumName = "sha256";

std::string checksum_of(const json& index) {
  Sha256 hash;
  hash.update(index.dump());
  return hash.hex();
}

json to_json(const SavedTensor& tensor) {
  auto shards = json::array();
  for (const auto& shard : tensor.shards) {
    shards.push_back(
        {{"file", shard.file}, {"offset", shard.box.offset}, {"shape", shard.box.sizes}, {"sha256", shard.sha256}});
  }
  return {{"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"placements", to_string(tensor.placements)},
          {"shards", std::move(shards)}};
}

/// An error in an index, reported with its file.
[[noreturn]] void index_is_wrong(const std::filesystem::path& file, const std::string& what) {
  throw Error(ErrorKind::data, "sharded checkpoint", what, {file.string(), 0});
}

SavedTensor read_tensor_entry(const json& value) {
  SavedTensor tensor{.dtype = value.at("dtype"),
                     .shape = value.at("shape"),
                     .placements = parse_placements(value.at("placements").get<std::string>()),
                     .shards = {}};
  for (const auto& shard : value.at("shards")) {
    tensor.shards.push_back({.file = shard.at("file"),
                             .box = {.offset = shard.at("offset"), .sizes = shard.at("shape")},
                             .sha256 = shard.at("sha256")});
  }
  return tensor;
}

/// The first broken rule, in words; empty: none.
std::string problem_with(const SavedTensor& tensor, const MeshShape& mesh) {
  if (safetensors_element_bytes(tensor.dtype) == 0) return fmt::format("has the unknown dtype \"{}\"", tensor.dtype);
  if (tensor.placements.size() != mesh.sizes.size()) {
    return fmt::format("has {} placements on a mesh of {} axes", tensor.placements.size(), mesh.sizes.size());
  }
  std::int64_t covered = 0;
  for (const auto& shard : tensor.shards) {
    const auto dims = tensor.shape.size();
    if (shard.box.offset.size() != dims || shard.box.sizes.size() != dims ||
        intersection(shard.box, whole_box(tensor.shape)) != shard.box) {
      return fmt::format("has a shard at [{}] of sizes [{}] that is not inside [{}]", fmt::join(shard.box.offset, ", "),
                         fmt::join(shard.box.sizes, ", "), fmt::join(tensor.shape, ", "));
    }
    if (shard.file.empty() || shard.file.find('/') != std::string::npos) {
      return fmt::format("has a shard in \"{}\", which is not a file name", shard.file);
    }
    covered += shard.box.elements();
  }
  const auto all = whole_box(tensor.shape).elements();
  if (covered != all) return fmt::format("has shards with {} of its {} elements", covered, all);
  return {};
}

ShardedIndex from_json(const json& value, const std::filesystem::path& file) {
  ShardedIndex index{.save = value.at("save"),
                     .mesh = {.sizes = value.at("mesh").at("sizes"), .names = value.at("mesh").at("names")},
                     .metadata = value.at("metadata"),
                     .tensors = {}};
  for (const auto& [name, tensor] : value.at("tensors").items()) {
    auto read = read_tensor_entry(tensor);
    if (const auto problem = problem_with(read, index.mesh); !problem.empty()) {
      index_is_wrong(file, fmt::format("tensor \"{}\" {}", name, problem));
    }
    index.tensors.emplace(name, std::move(read));
  }
  return index;
}

}  // namespace

std::string format_index(const ShardedIndex& index) {
  json tensors = json::object();
  for (const auto& [name, tensor] : index.tensors) tensors[name] = to_json(tensor);
  json value{{kVersionName, kLayoutVersion},
             {"save", index.save},
             {"mesh", {{"sizes", index.mesh.sizes}, {"names", index.mesh.names}}},
             {"metadata", index.metadata},
             {"tensors", std::move(tensors)}};
  try {
    value[kChecksumName] = checksum_of(value);
    return value.dump(1) + "\n";
  } catch (const json::exception& error) {
    fail(ErrorKind::invalid_argument, "sharded checkpoint", "names and metadata must be UTF-8: {}", error.what());
  }
}

ShardedIndex parse_index(std::string_view text, const std::filesystem::path& file) {
  try {
    auto value = json::parse(text);
    const auto written = value.at(kChecksumName).get<std::string>();
    value.erase(kChecksumName);
    // The checksum is compared first, because a changed bit may also change the version. Every version has this
    // checksum.
    if (const auto hash = checksum_of(value); hash != written) {
      index_is_wrong(file,
                     fmt::format("the index is damaged: its SHA-256 is {}, it was written with {}", hash, written));
    }
    if (const auto version = value.at(kVersionName); version != kLayoutVersion && version != kOldestLayoutVersion) {
      throw Error(ErrorKind::unsupported, "sharded checkpoint",
                  fmt::format("its layout is version {}, this program reads {} and {}", version.dump(),
                              kOldestLayoutVersion, kLayoutVersion),
                  {file.string(), 0});
    }
    return from_json(value, file);
  } catch (const json::exception& error) {
    index_is_wrong(file, fmt::format("this is not an index of a sharded checkpoint: {}", json_mistake(error)));
  }
}

}  // namespace lockstep::state
