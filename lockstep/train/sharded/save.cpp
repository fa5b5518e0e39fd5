#include <lockstep/train/sharded/sharded_save.h>

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

ShardedSave::ShardedSave(std::filesystem::path folder, const NamedTensors& tensors, const SavedMetadata& metadata,
                         SavedValues values)
    : folder_(std::move(folder)), tensors_(tensors), values_(values) {
  const torch::NoGradGuard no_grad;
  const auto mesh = mesh_of_tensors(tensors);
  if (!mesh) {
    fail(ErrorKind::invalid_argument, "sharded checkpoint",
         "none of the {} tensors is global; save_safetensors writes ordinary ones", tensors.size());
  }
  group_ = mesh->group();
  index_ = describe_save(tensors, *mesh, metadata);
  require_same_everywhere(index_, *group_);

  std::int64_t number = 0;
  all_or_none(&*group_, problem_of([&] {
    if (group_->rank() == 0) number = next_save_number(folder_);
  }));
  index_.save = std::stoll(share_text(std::to_string(number), *group_));
  plan_shards(index_);
  file_ = shard_file(index_.save, group_->rank());
  if (values_ == SavedValues::in_place) return;

  tensors_.clear();
  for (const auto& name : names_in_file_order(index_)) {
    const auto part = finished_part(tensors.at(name));
    const auto& shards = index_.tensors.at(name).shards;
    const bool own = std::ranges::any_of(shards, [this](const SavedShard& shard) { return shard.file == file_; });
    if (own) tensors_[name] = part.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
  }
}

ShardedSave::~ShardedSave() {
  if (!committed_ && !file_.empty()) take_back(folder_, index_.save, file_);
}

void ShardedSave::write() noexcept {
  problem_ = problem_of([this] { write_shards(); });
}

at::Tensor ShardedSave::values_of(const std::string& name) const {
  if (values_ == SavedValues::in_place) return finished_part(tensors_.at(name)).detach();
  const auto own = tensors_.find(name);
  return own == tensors_.end() ? at::Tensor() : own->second;
}

// Fills in the checksums of this rank's shards.
void ShardedSave::write_shards() {
  const torch::NoGradGuard no_grad;
  SafetensorsHeader header;
  for (const auto& [name, tensor] : index_.tensors) {
    for (const auto& shard : tensor.shards) {
      if (shard.file == file_) {
        header.entries.push_back({.name = name, .dtype = tensor.dtype, .shape = shard.box.sizes});
      }
    }
  }
  std::optional<SafetensorsWriter> writer;
  std::optional<Error> problem;
  if (!header.entries.empty()) problem = problem_of([&] { writer.emplace(folder_ / file_, std::move(header)); });
  // Through all tensors even after a problem: other ranks may wait in the reductions of partial ones.
  for (const auto& name : names_in_file_order(index_)) {
    const auto part = values_of(name);
    for (auto& shard : index_.tensors.at(name).shards) {
      if (shard.file != file_ || problem) continue;
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

void ShardedSave::commit() {
  tensors_.clear();
  all_or_none(&*group_, problem_);
  share_checksums(index_, file_, *group_);
  all_or_none(&*group_, problem_of([this] {
    if (group_->rank() == 0) finish_save(folder_, index_);
  }));
  committed_ = true;
}

void save_sharded(const std::filesystem::path& folder, const NamedTensors& tensors, const SavedMetadata& metadata) {
  ShardedSave save(folder, tensors, metadata, SavedValues::in_place);
  save.write();
  save.commit();
}

}  // namespace lockstep::train
