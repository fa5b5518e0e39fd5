// Box reads over shard files with at most 64 open: whole shards with a SHA-256 comparison, or only the rows needed.
#include <lockstep/state/sharded/shard_reader.h>

#include <lockstep/base/error.h>
#include <lockstep/base/sha256.h>

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

}  // namespace lockstep::state
