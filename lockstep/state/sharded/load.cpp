// Box reads over shard files with at most 64 open: whole shards with a SHA-256 comparison, or only the rows needed. And
// load_sharded: a comparison of tensors with the index, then each rank reads its parts. Errors are exchanged as text:
// each rank throws its own error, or else that of the first rank with one.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/texts.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/redistribute.h>
#include <lockstep/global/tensor_state.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/load.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <cstddef>
#include <span>
#include <utility>

namespace lockstep::state {
namespace {

constexpr std::size_t kOpenFiles = 64;  // at a time: a process may have about a thousand

at::Tensor narrowed(at::Tensor tensor, const Box& outer, const Box& inner) {
  for (std::size_t dim = 0; dim < inner.sizes.size(); ++dim) {
    tensor = tensor.narrow(static_cast<std::int64_t>(dim), inner.offset[dim] - outer.offset[dim], inner.sizes[dim]);
  }
  return tensor;
}

}  // namespace

std::string sha256_of_values(const at::Tensor& tensor) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes())));
  return hash.hex();
}

ShardReader::ShardReader(std::filesystem::path folder, ShardedIndex index, Checksums checksums)
    : folder_(std::move(folder)), index_(std::move(index)), checksums_(checksums) {}

SafetensorsReader& ShardReader::open(const std::string& name, const std::string& file) {
  if (const auto found = files_.find(file); found != files_.end()) return found->second;
  if (std::error_code failed; !std::filesystem::exists(folder_ / file, failed)) {
    throw Error(ErrorKind::data, "sharded checkpoint",
                fmt::format("a shard of tensor \"{}\" is missing: the folder holds no {}. Check that all files were "
                            "copied, and that all hosts read the same folder",
                            name, file),
                {(folder_ / kIndexName).string(), 0});
  }
  if (files_.size() >= kOpenFiles) files_.clear();
  return files_.try_emplace(file, folder_ / file).first->second;
}

const SafetensorsEntry& ShardReader::entry_of(const std::string& name, std::size_t at) {
  const auto& tensor = index_.tensors.at(name);
  const auto& shard = tensor.shards.at(at);
  const auto* entry = open(name, shard.file).find(names_in_files(name, tensor.shards).at(at));
  if (!entry || entry->dtype != tensor.dtype || entry->shape != shard.box.sizes) {
    throw Error(ErrorKind::data, "sharded checkpoint",
                fmt::format("by the index, the file holds a shard {} [{}] of tensor \"{}\", but {}", tensor.dtype,
                            fmt::join(shard.box.sizes, ", "), name,
                            entry ? fmt::format("it holds {} [{}]", entry->dtype, fmt::join(entry->shape, ", "))
                                  : "there is none of that name"),
                {(folder_ / shard.file).string(), 0});
  }
  return *entry;
}

at::Tensor ShardReader::read_shard(const std::string& name, std::size_t at) {
  const auto& entry = entry_of(name, at);
  const auto& shard = index_.tensors.at(name).shards.at(at);
  auto values = open(name, shard.file).read(entry);
  if (const auto hash = sha256_of_values(values); hash != shard.sha256) {
    throw Error(ErrorKind::data, "sharded checkpoint",
                fmt::format("the shard of tensor \"{}\" is damaged: its SHA-256 is {}, it was written with {}", name,
                            hash, shard.sha256),
                {(folder_ / shard.file).string(), 0});
  }
  return values;
}

void ShardReader::compare_all() {
  for (const auto& [name, tensor] : index_.tensors) {
    for (std::size_t at = 0; at < tensor.shards.size(); ++at) read_shard(name, at);
  }
}

void ShardReader::read(const std::string& name, const Box& box, at::Tensor& into) {
  const auto& shards = index_.tensors.at(name).shards;
  for (std::size_t at = 0; at < shards.size(); ++at) {
    auto held = shards[at].box;
    const auto both = intersection(held, box);
    if (both.empty() || box.empty()) continue;
    at::Tensor values;
    if (checksums_ == Checksums::compare || held.sizes.empty()) {
      values = checksums_ == Checksums::compare ? read_shard(name, at)
                                                : open(name, shards[at].file).read(entry_of(name, at));
    } else {
      const auto& entry = entry_of(name, at);
      values = open(name, shards[at].file).read_rows(entry, both.offset[0] - held.offset[0], both.sizes[0]);
      held.offset[0] = both.offset[0];
      held.sizes[0] = both.sizes[0];
    }
    narrowed(into, box, both).copy_(narrowed(values, held, both));
  }
}

at::Tensor ShardReader::read(const std::string& name, const Box& box) {
  auto tensor = torch::empty(box.sizes, scalar_type_of(index_.tensors.at(name).dtype));
  read(name, box, tensor);
  return tensor;
}

namespace {

void require_all_fit(const std::filesystem::path& folder, const ShardedIndex& index, const NamedTensors& tensors) {
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : tensors) {
    const auto found = index.tensors.find(name);
    if (found == index.tensors.end()) {
      problems.push_back(fmt::format("\"{}\" is not in it", name));
      continue;
    }
    const auto& saved = found->second;
    const auto dtype = safetensors_dtype(name, tensor);
    if (saved.shape != tensor.sizes().vec() || saved.dtype != dtype) {
      problems.push_back(fmt::format("\"{}\" is {} [{}] in it and {} [{}] here", name, saved.dtype,
                                     fmt::join(saved.shape, ", "), dtype, fmt::join(tensor.sizes().vec(), ", ")));
    }
  }
  if (problems.empty()) return;
  throw Error(
      ErrorKind::data, "sharded checkpoint",
      fmt::format("the checkpoint does not fit: {}. It holds {} tensors; 'lockstep checkpoint inspect {}' lists "
                  "them",
                  fmt::join(problems, "; "), index.tensors.size(), folder.string()),
      {(folder / kIndexName).string(), 0});
}

/// Whether this rank's part of a sum is zero, because another rank has the value.
bool adds_nothing(const Placements& placements, const std::vector<int>& coordinate) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_partial(ReduceOp::sum) && coordinate[axis] != 0) return true;
  }
  return false;
}

}  // namespace

std::optional<Error> problem_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorKind::io, "sharded checkpoint", error.what());
  }
}

// The kind as one character before the text.
std::string problem_text(const std::optional<Error>& problem) {
  if (!problem) return {};
  return static_cast<char>('a' + static_cast<int>(problem->kind())) + std::string(problem->what());
}

void throw_problems(const std::optional<Error>& own, const std::vector<std::string>& texts) {
  if (own) throw *own;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    throw Error(static_cast<ErrorKind>(texts[rank].front() - 'a'), "sharded checkpoint",
                fmt::format("rank {}: {}", rank, texts[rank].substr(1)));
  }
}

void all_or_none(const Group* group, const std::optional<Error>& problem) {
  throw_problems(problem, group ? gather_texts(problem_text(problem), *group) : std::vector<std::string>());
}

void fill(const std::string& name, const at::Tensor& tensor, const ReadBox& read) {
  const auto sizes = tensor.sizes().vec();
  if (!is_global(tensor)) {
    auto values = tensor.detach();
    return read(name, whole_box(sizes), values);
  }
  auto& state = global::state_of(tensor);
  if (state.fetched) {
    fail(ErrorKind::invalid_argument, "sharded checkpoint",
         "\"{}\" is a view whose numbers were fetched from other ranks; load into the tensor that it is a view of",
         name);
  }
  const auto& placements = state.sharding->placements;
  const auto& coordinate = state.mesh->coordinate();
  auto part = state.local.detach();
  read(name, box_of(sizes, placements, state.mesh->sizes(), coordinate), part);
  if (adds_nothing(placements, coordinate)) part.zero_();
  state.unwritten = false;
  global::note_written(tensor);
  tensor.unsafeGetTensorImpl()->bump_version();
}

ShardedIndex shared_index(const std::filesystem::path& folder, const Group* group) {
  if (!group) return read_index(folder);
  std::string text;
  all_or_none(group, problem_of([&] {
                if (group->rank() == 0) text = read_index_text(folder);
              }));
  return parse_index(share_text(text, *group), folder / kIndexName);
}

void fill_all(const std::filesystem::path& folder, ShardedIndex index, const NamedTensors& tensors,
              const Group* group) {
  require_all_fit(folder, index, tensors);
  ShardReader reader(folder, std::move(index));
  const auto read = [&reader](const std::string& name, const Box& box, at::Tensor& into) {
    reader.read(name, box, into);
  };
  all_or_none(group, problem_of([&] {
                for (const auto& [name, tensor] : tensors) fill(name, tensor, read);
              }));
}

std::optional<Mesh> mesh_of_tensors(const NamedTensors& tensors) {
  std::optional<Mesh> mesh;
  std::string first;
  for (const auto& [name, tensor] : tensors) {
    if (!is_global(tensor)) continue;
    if (!mesh) {
      mesh = mesh_of(tensor);
      first = name;
    } else if (!(*mesh == mesh_of(tensor))) {
      fail(ErrorKind::invalid_argument, "sharded checkpoint",
           "all tensors of a checkpoint lie on one mesh, but \"{}\" is on {} and \"{}\" on {}; use two folders", first,
           to_string(*mesh), name, to_string(mesh_of(tensor)));
    }
  }
  return mesh;
}

MeshShape shape_of(const Mesh& mesh) { return {.sizes = mesh.sizes(), .names = mesh.names()}; }

Placements finished_placements(const at::Tensor& tensor, std::size_t axes) {
  return is_global(tensor) ? global::placements_of_gradient(placements_of(tensor)) : Placements(axes);
}

void load_sharded(const std::filesystem::path& folder, const NamedTensors& tensors) {
  const torch::NoGradGuard no_grad;
  const auto mesh = mesh_of_tensors(tensors);
  const Group* group = mesh ? &mesh->group() : nullptr;
  fill_all(folder, shared_index(folder, group), tensors, group);
}

SavedMetadata load_sharded_metadata(const std::filesystem::path& folder) { return read_index(folder).metadata; }

}  // namespace lockstep::state
