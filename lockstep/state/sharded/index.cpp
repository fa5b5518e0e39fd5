// The index of a sharded checkpoint: the assignment of shards to writers, widest elements first, each shard to the
// holder with the fewest bytes so far; its JSON; and its place in a folder where older saves are.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/json.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/state/safetensors_header.h>
#include <lockstep/state/sharded/index.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <system_error>

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

/// 7 for save_00000007.rank_00003.safetensors.
std::optional<std::int64_t> save_number_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view kBegin = "save_";
  const auto middle = name.find(".rank_");
  if (!name.starts_with(kBegin) || middle == std::string::npos || !name.ends_with(".safetensors")) return std::nullopt;
  const auto number = parse_integer(name.substr(kBegin.size(), middle - kBegin.size()));
  return number && *number >= 0 ? number : std::nullopt;
}

template <typename Visit>
void for_each_shard_file(const std::filesystem::path& folder, const Visit& visit) {
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (const auto number = save_number_of(entry->path())) visit(entry->path(), *number);
  }
  if (failed) fail(ErrorKind::io, "sharded checkpoint", "cannot list {}: {}", folder.string(), failed.message());
}

}  // namespace

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

std::vector<std::string> names_in_files(const std::string& tensor, const std::vector<SavedShard>& shards) {
  std::map<std::string, int> in_file;
  for (const auto& shard : shards) ++in_file[shard.file];
  std::vector<std::string> names;
  for (const auto& shard : shards) {
    names.push_back(in_file[shard.file] == 1 ? tensor
                                             : fmt::format("{}[{}]", tensor, fmt::join(shard.box.offset, ",")));
  }
  return names;
}

std::vector<PlannedShard> plan_shards(ShardedIndex& index, const std::map<std::string, Holders>& held,
                                      const std::vector<int>& writers) {
  constexpr std::int64_t kSmallest = 1 << 20;  // smaller shards would only add entries to files
  const auto element_bytes = [&](const std::string& name) {
    return static_cast<std::int64_t>(safetensors_element_bytes(index.tensors.at(name).dtype));
  };
  std::int64_t total = 0;
  for (const auto& [name, tensor] : index.tensors) total += tensor.bytes();
  const auto even = std::clamp(total / (4 * std::int64_t{index.mesh.ranks()}), kSmallest, kMaxShardBytes);

  std::vector<int> all(static_cast<std::size_t>(index.mesh.ranks()));
  std::iota(all.begin(), all.end(), 0);
  const auto& candidates = writers.empty() ? all : writers;
  std::vector<std::int64_t> bytes(all.size());
  const auto load = [&](int rank) { return bytes[static_cast<std::size_t>(rank)]; };

  std::vector<std::string> names;
  for (const auto& [name, tensor] : index.tensors) names.push_back(name);
  std::ranges::stable_sort(names, std::ranges::greater(), element_bytes);
  std::vector<PlannedShard> plan;
  for (const auto& name : names) {
    auto& tensor = index.tensors.at(name);
    tensor.shards.clear();
    const auto first = plan.size();
    const auto known = held.find(name);
    for (const auto& [part, holders] :
         known == held.end() ? boxes_of(tensor.shape, tensor.placements, index.mesh) : known->second) {
      std::vector<int> able;
      std::ranges::set_intersection(holders, candidates, std::back_inserter(able));
      const auto most = able.size() == 1 ? kMaxShardBytes : even;
      for (auto& box : cut_box(part, most / element_bytes(name))) {
        const int writer = *std::ranges::min_element(able.empty() ? candidates : able, {}, load);
        bytes[static_cast<std::size_t>(writer)] += box.elements() * element_bytes(name);
        plan.push_back({.tensor = name,
                        .shard = tensor.shards.size(),
                        .name = {},
                        .writer = writer,
                        .source = able.empty() ? holders.front() : writer});
        tensor.shards.push_back({.file = shard_file(index.save, writer), .box = std::move(box), .sha256 = {}});
      }
    }
    auto in_files = names_in_files(name, tensor.shards);
    for (std::size_t i = 0; i < in_files.size(); ++i) plan[first + i].name = std::move(in_files[i]);
  }
  // The order of safetensors files: wider elements first, then by name.
  std::ranges::stable_sort(plan, [&](const PlannedShard& a, const PlannedShard& b) {
    const auto wide_a = element_bytes(a.tensor), wide_b = element_bytes(b.tensor);
    return wide_a != wide_b ? wide_a > wide_b : a.name < b.name;
  });
  return plan;
}

std::string read_index_text(const std::filesystem::path& folder) {
  const auto file = folder / kIndexName;
  std::error_code failed;
  if (!std::filesystem::exists(file, failed)) {
    fail(ErrorKind::data, "sharded checkpoint",
         "{} holds no {}: it is not a sharded checkpoint, or the save that was to make it never ended", folder.string(),
         kIndexName);
  }
  if (!std::filesystem::is_regular_file(file, failed)) {  // reading a pipe would wait
    throw Error(ErrorKind::data, "sharded checkpoint",
                std::filesystem::is_directory(file, failed) ? "this is a folder, not an index"
                                                            : "this is not a regular file, so it is no index",
                {file.string(), 0});
  }
  auto text = read_file(file);
  if (!text) fail(ErrorKind::io, "sharded checkpoint", "cannot read {}", file.string());
  return *std::move(text);
}

ShardedIndex read_index(const std::filesystem::path& folder) {
  return parse_index(read_index_text(folder), folder / kIndexName);
}

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

std::int64_t next_save_number(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) fail(ErrorKind::io, "sharded checkpoint", "cannot make {}: {}", folder.string(), failed.message());
  std::int64_t last = 0;
  for_each_shard_file(folder, [&](const auto&, std::int64_t number) { last = std::max(last, number); });
  return last + 1;
}

std::filesystem::path put_mark(const std::filesystem::path& folder, std::int64_t save) {
  std::random_device random;
  // The name of a shard file, so that it is removed together with the files of its save.
  auto mark = folder / fmt::format("save_{:08}.rank_{:08x}{:08x}.safetensors", save, random(), random());
  if (!std::ofstream(mark)) {
    fail(ErrorKind::io, "sharded checkpoint", "cannot write to {}: {}", folder.string(),
         std::generic_category().message(errno));
  }
  return mark;
}

void finish_save(const std::filesystem::path& folder, const ShardedIndex& index) {
  write_file_atomically(folder / kIndexName, format_index(index));
  // The save is complete; files that cannot be removed only use disk space.
  try {
    for_each_shard_file(folder, [&](const std::filesystem::path& file, std::int64_t number) {
      std::error_code failed;
      if (number != index.save) std::filesystem::remove(file, failed);
    });
    remove_abandoned_temporaries(folder);
  } catch (const Error& error) {
    log_warning("files of earlier saves stay in {}: {}", folder.string(), error.what());
  }
}

void take_back(const std::filesystem::path& folder, std::int64_t save, const std::string& file) noexcept {
  try {
    if (read_index(folder).save == save) return;
  } catch (const std::exception&) {
    // If there is no readable index, no index names the file.
  }
  std::error_code failed;
  std::filesystem::remove(folder / file, failed);
}

}  // namespace lockstep::state
