// save_sharded: plan, write, tell, commit.
#include <lockstep/base/error.h>
#include <lockstep/base/sha256.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/train/safetensors_stream.h>
#include <lockstep/train/sharded/all_or_none.h>
#include <lockstep/train/sharded/checkpoint.h>
#include <lockstep/train/sharded/mesh_of_tensors.h>
#include <lockstep/train/sharded/shard_folder.h>
#include <lockstep/train/sharded/shard_reader.h>

#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace lockstep::train {
namespace {

/// The index without number and checksums.
ShardedIndex describe_save(const NamedTensors& tensors, const Mesh& mesh, const SavedMetadata& metadata) {
  ShardedIndex index{.save = 0, .mesh = shape_of(mesh), .metadata = metadata, .tensors = {}};
  for (const auto& [name, tensor] : tensors) {
    index.tensors.emplace(name, SavedTensor{.dtype = safetensors_dtype(name, tensor),
                                            .shape = tensor.sizes().vec(),
                                            .placements = finished_placements(tensor, mesh.axes()),
                                            .shards = {}});
  }
  return index;
}

/// Ranks that save different things would wait for each other, or write what does not fit together.
void require_same_everywhere(ShardedIndex index, const Group& group) {
  index.metadata.clear();
  const auto all = gather_texts(format_index(index), group);
  const auto other = std::ranges::find_if(all, [&](const std::string& text) { return text != all.front(); });
  if (other == all.end()) return;
  const auto rank = other - all.begin();
  const auto first = nlohmann::json::parse(all.front()).at("tensors");
  const auto theirs = nlohmann::json::parse(*other).at("tensors");
  auto either = first;
  either.update(theirs);
  std::string what;
  for (const auto& [name, tensor] : either.items()) {
    const bool same = first.contains(name) && theirs.contains(name) && first.at(name) == theirs.at(name);
    if (!same && what.empty()) what = name;
  }
  fail(ErrorKind::mismatch, "sharded checkpoint",
       "ranks 0 and {} do not save the same tensors: \"{}\" is on one of them only, or of another shape, dtype or "
       "placement there; every rank passes the same names and global tensors",
       rank, what);
}

/// This rank's part, with partial values finished. A collective for partial tensors.
at::Tensor finished_part(const at::Tensor& tensor) {
  if (!is_global(tensor)) return tensor;
  const auto finished = finished_placements(tensor, 0);
  return to_local(finished == placements_of(tensor) ? tensor : redistribute(tensor, finished));
}

/// Writes this rank's file, if it has one, and fills in the checksums of its shards.
void write_shards(const std::filesystem::path& folder, ShardedIndex& index, const std::string& file,
                  const NamedTensors& tensors) {
  SafetensorsHeader header;
  for (const auto& [name, tensor] : index.tensors) {
    for (const auto& shard : tensor.shards) {
      if (shard.file == file) {
        header.entries.push_back({.name = name, .dtype = tensor.dtype, .shape = shard.box.sizes});
      }
    }
  }
  std::optional<SafetensorsWriter> writer;
  std::optional<Error> problem;
  if (!header.entries.empty()) problem = problem_of([&] { writer.emplace(folder / file, std::move(header)); });
  // Through all tensors even after a problem: other ranks wait in the reductions.
  for (const auto& name : names_in_file_order(index)) {
    const auto part = finished_part(tensors.at(name)).detach();
    for (auto& shard : index.tensors.at(name).shards) {
      if (shard.file != file || problem) continue;
      problem = problem_of([&] {
        const auto values = part.cpu().contiguous();
        shard.sha256 = sha256_of_values(values);
        writer->write(values);
      });
    }
  }
  if (problem) throw *problem;
  if (writer) writer->commit();
}

/// Everybody's checksums, in everybody's index.
void share_checksums(ShardedIndex& index, const std::string& file, const Group& group) {
  auto own = nlohmann::json::object();
  for (const auto& [name, tensor] : index.tensors) {
    for (const auto& shard : tensor.shards) {
      if (shard.file == file) own[name] = shard.sha256;
    }
  }
  const auto all = gather_texts(own.dump(), group);
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto theirs = nlohmann::json::parse(all[static_cast<std::size_t>(rank)]);
    const auto their_file = shard_file(index.save, rank);
    for (auto& [name, tensor] : index.tensors) {
      for (auto& shard : tensor.shards) {
        if (shard.file == their_file) shard.sha256 = theirs.at(name);
      }
    }
  }
}

}  // namespace

void save_sharded(const std::filesystem::path& folder, const NamedTensors& tensors, const SavedMetadata& metadata) {
  const torch::NoGradGuard no_grad;
  const auto mesh = mesh_of_tensors(tensors);
  if (!mesh) {
    fail(ErrorKind::invalid_argument, "sharded checkpoint",
         "none of the {} tensors is global; save_safetensors writes ordinary ones", tensors.size());
  }
  const Group& group = mesh->group();
  auto index = describe_save(tensors, *mesh, metadata);
  require_same_everywhere(index, group);

  std::int64_t number = 0;
  const auto no_folder = problem_of([&] {
    if (group.rank() == 0) number = next_save_number(folder);
  });
  all_or_none(&group, no_folder);
  index.save = std::stoll(share_text(std::to_string(number), group));
  plan_shards(index);

  const auto file = shard_file(index.save, group.rank());
  try {
    all_or_none(&group, problem_of([&] { write_shards(folder, index, file, tensors); }));
    share_checksums(index, file, group);
    all_or_none(&group, problem_of([&] {
      if (group.rank() == 0) finish_save(folder, index);
    }));
  } catch (...) {
    take_back(folder, index.save, file);
    throw;
  }
}

}  // namespace lockstep::train
