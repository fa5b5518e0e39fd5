// The assignment of shards to writers: widest elements first, each shard to the holder with the fewest bytes so far;
// and the names of shards in files.
#include <lockstep/state/sharded/index.h>

#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/state/safetensors_header.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <system_error>

namespace lockstep::state {

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

}  // namespace lockstep::state
