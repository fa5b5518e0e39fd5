#include <lockstep/base/error.h>
#include <lockstep/base/sha256.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/safetensors.h>

#include <ATen/core/Tensor.h>

namespace lockstep::train {
namespace {

constexpr std::string_view kVersionKey = "lockstep.checkpoint", kStateKey = kRunStateKey, kHashKey = "lockstep.sha256";
constexpr std::string_view kVersion = "1";

std::string hash_of(std::string_view state, const NamedTensors& tensors) {
  Sha256 hash;
  hash.update(state);
  hash.update(sha256_of(tensors));
  return hash.hex();
}

const std::string& find(const TensorMetadata& metadata, std::string_view key, const std::filesystem::path& file) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    throw Error(ErrorKind::data, "checkpoint", fmt::format("this is no checkpoint: its metadata has no {}", key),
                {file.string(), 0});
  }
  return found->second;
}

}  // namespace

NamedTensors part_of(const NamedTensors& tensors, std::string_view part) {
  const auto prefix = fmt::format("{}.", part);
  NamedTensors out;
  for (auto item = tensors.lower_bound(prefix); item != tensors.end() && item->first.starts_with(prefix); ++item) {
    out.emplace(item->first.substr(prefix.size()), item->second);
  }
  return out;
}

void add_part(NamedTensors& tensors, std::string_view part, const NamedTensors& content) {
  for (const auto& [name, tensor] : content) tensors.insert_or_assign(fmt::format("{}.{}", part, name), tensor);
}

void save_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint) {
  const auto state = to_json(checkpoint.state);
  save_safetensors(file, checkpoint.tensors,
                   {{std::string(kVersionKey), std::string(kVersion)},
                    {std::string(kStateKey), state},
                    {std::string(kHashKey), hash_of(state, checkpoint.tensors)}});
}

Checkpoint load_checkpoint(const std::filesystem::path& file) {
  const auto metadata = load_safetensors_metadata(file);
  const auto& version = find(metadata, kVersionKey, file);
  if (version != kVersion) {
    throw Error(ErrorKind::unsupported, "checkpoint",
                fmt::format("its layout is version {}, this program reads {}", version, kVersion), {file.string(), 0});
  }
  const auto& state = find(metadata, kStateKey, file);
  auto tensors = load_safetensors(file);
  const auto hash = hash_of(state, tensors);
  if (const auto& written = find(metadata, kHashKey, file); hash != written) {
    throw Error(ErrorKind::data, "checkpoint",
                fmt::format("the file is damaged: its SHA-256 is {}, it was written with {}", hash, written),
                {file.string(), 0});
  }
  return {parse_run_state(state), std::move(tensors)};
}

}  // namespace lockstep::train
