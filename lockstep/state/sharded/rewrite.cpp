// Sharded checkpoints rewritten tensor by tensor: verified, merged to one file or numbered files, or cut for another
// mesh.
#include <lockstep/state/sharded/rewrite.h>

#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/safetensors_header.h>
#include <lockstep/state/sharded/index.h>
#include <lockstep/state/sharded/load.h>

#include <fmt/ranges.h>
#include <fnmatch.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

namespace lockstep::state {
namespace {

void require_rule_fits(const PlacementRule& rule, const MeshShape& mesh, const ShardedIndex& index) {
  if (rule.placements.size() != mesh.sizes.size()) {
    fail(ErrorKind::invalid_argument, "reshard",
         "{}={} has {} placements for the {} axes of the mesh {}; one for each is needed", rule.pattern,
         to_string(rule.placements), rule.placements.size(), mesh.sizes.size(), to_string(mesh));
  }
  bool matches = false;
  for (const auto& [name, tensor] : index.tensors) {
    if (::fnmatch(rule.pattern.c_str(), name.c_str(), 0) != 0) continue;
    matches = true;
    for (const auto& each : rule.placements) {
      if (each.is_partial() || (each.is_shard() && each.dim >= static_cast<std::int64_t>(tensor.shape.size()))) {
        fail(ErrorKind::invalid_argument, "reshard", "{}={} does not fit tensor \"{}\" [{}]: {}", rule.pattern,
             to_string(rule.placements), name, fmt::join(tensor.shape, ", "),
             each.is_partial() ? "saved values are whole, not partial"
                               : fmt::format("dimensions count from 0, so there is no {}", each.dim));
      }
    }
  }
  if (!matches) {
    fail(ErrorKind::invalid_argument, "reshard",
         "no tensor has a name like \"{}\"; 'lockstep checkpoint inspect' lists the names", rule.pattern);
  }
}

Placements new_placements(const std::string& name, const Placements& old, const MeshShape& mesh,
                          const std::vector<PlacementRule>& rules) {
  for (const auto& rule : rules) {
    if (::fnmatch(rule.pattern.c_str(), name.c_str(), 0) == 0) return rule.placements;
  }
  return old.size() == mesh.sizes.size() ? old : Placements(mesh.sizes.size());
}

/// Writes one file of the new checkpoint, shard by shard. `plan` is of all files.
void write_file_of_shards(const std::filesystem::path& path, ShardedIndex& index, const std::vector<PlannedShard>& plan,
                          ShardReader& reader) {
  const auto file = path.filename().string();
  std::vector<PlannedShard> own;
  SafetensorsHeader header;
  for (const auto& each : plan) {
    const auto& tensor = index.tensors.at(each.tensor);
    if (tensor.shards[each.shard].file != file) continue;
    header.entries.push_back({.name = each.name, .dtype = tensor.dtype, .shape = tensor.shards[each.shard].box.sizes});
    own.push_back(each);
  }
  SafetensorsWriter writer(path, std::move(header));
  for (const auto& each : own) {
    auto& shard = index.tensors.at(each.tensor).shards[each.shard];
    const auto values = reader.read(each.tensor, shard.box);
    shard.sha256 = sha256_of_values(values);
    writer.write(values);
  }
  writer.commit();
}

}  // namespace

std::vector<std::string> problems_of_shards(const std::filesystem::path& folder, const ShardedIndex& index,
                                            bool only_there) {
  std::vector<std::string> problems;
  if (only_there) {
    for (const auto& file : index.files()) {
      if (std::error_code failed; !std::filesystem::exists(folder / file, failed)) {
        problems.push_back(fmt::format("{} is missing", file));
      }
    }
    return problems;
  }
  ShardReader reader(folder, index);
  for (const auto& [name, tensor] : index.tensors) {
    for (std::size_t at = 0; at < tensor.shards.size(); ++at) {
      try {
        reader.read_shard(name, at);
      } catch (const Error& error) {
        problems.emplace_back(error.what());
      }
    }
  }
  return problems;
}

void merge_sharded(ShardReader& reader, const std::filesystem::path& file,
                   const std::map<std::string, std::string, std::less<>>& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  for (const auto& [name, tensor] : reader.index().tensors) {
    header.entries.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  SafetensorsWriter writer(file, std::move(header));
  for (const auto& entry : writer.entries()) writer.write(reader.read(entry.name, whole_box(entry.shape)));
  writer.commit();
}

std::size_t merge_to_shards(ShardReader& reader, const std::filesystem::path& folder, std::uint64_t shard_bytes,
                            const std::string& prefix) {
  const auto& tensors = reader.index().tensors;
  std::vector<std::vector<std::string>> shards(1);
  std::uint64_t used = 0;
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix)) continue;
    const auto bytes = static_cast<std::uint64_t>(tensor.bytes());
    if (!shards.back().empty() && used + bytes > shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(name);
    used += bytes;
    total += bytes;
  }
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) fail(ErrorKind::io, "merge", "cannot make the folder {}: {}", folder.string(), failed.message());
  ShardFiles files;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto file = shard_name(i + 1, shards.size());
    SafetensorsHeader header{.entries = {}, .metadata = {{"format", "pt"}}};
    for (const auto& name : shards[i]) {
      const auto& tensor = tensors.at(name);
      header.entries.push_back({.name = name.substr(prefix.size()), .dtype = tensor.dtype, .shape = tensor.shape});
      files.emplace(name.substr(prefix.size()), file);
    }
    SafetensorsWriter writer(folder / file, std::move(header));
    for (const auto& entry : writer.entries()) {
      writer.write(reader.read(prefix + entry.name, whole_box(entry.shape)));
    }
    writer.commit();
  }
  // The index is written last: a reader that finds it finds all files.
  write_file_atomically(folder / "model.safetensors.index.json", format_shard_index(files, total));
  return shards.size();
}

ShardedIndex reshard(const std::filesystem::path& folder, const std::filesystem::path& out, const MeshShape& mesh,
                     const std::vector<PlacementRule>& rules) {
  ShardReader reader(folder, read_index(folder));
  for (const auto& rule : rules) require_rule_fits(rule, mesh, reader.index());
  ShardedIndex index = reader.index();
  index.mesh = mesh;
  for (auto& [name, tensor] : index.tensors) {
    tensor.placements = new_placements(name, tensor.placements, mesh, rules);
  }
  index.save = next_save_number(out);
  const auto plan = plan_shards(index);
  try {
    for (const auto& file : index.files()) write_file_of_shards(out / file, index, plan, reader);
    finish_save(out, index);
  } catch (...) {
    for (const auto& file : index.files()) take_back(out, index.save, file);
    throw;
  }
  return index;
}

}  // namespace lockstep::state
