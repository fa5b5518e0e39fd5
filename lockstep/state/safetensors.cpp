// Whole safetensors files to and from maps of tensors, through the streaming reader and writer; tables that are read in
// blocks of 4 MiB from another process are hashed and written block by block.
#include <lockstep/state/safetensors.h>

#include <lockstep/base/sha256.h>
#include <lockstep/state/safetensors_stream.h>
#include <lockstep/state/tensors.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::state {
namespace {

constexpr std::int64_t kBytesOfBlock = std::int64_t{4} << 20;

void read_all(const RemoteTensor& tensor, const std::function<void(const at::Tensor&)>& take) {
  const auto rows = std::max<std::int64_t>(1, kBytesOfBlock / (4 * tensor.dim));
  for (std::int64_t first = 0; first < tensor.rows; first += rows) {
    take(tensor.read(first, std::min(rows, tensor.rows - first)));
  }
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const SavedMetadata& metadata) {
  save_safetensors(path, tensors, {}, metadata);
}

NamedTensors load_safetensors(const std::filesystem::path& path) {
  SafetensorsReader reader(path);
  NamedTensors tensors;
  for (const auto& entry : reader.header().entries) tensors.emplace(entry.name, reader.read(entry));
  return tensors;
}

SavedMetadata load_safetensors_metadata(const std::filesystem::path& path) {
  return SafetensorsReader(path).header().metadata;
}

std::string sha256_of(const NamedTensors& tensors, const std::vector<RemoteTensor>& distant) {
  std::map<std::string, const RemoteTensor*> in_order;
  for (const auto& [name, tensor] : tensors) in_order.emplace(name, nullptr);
  for (const auto& tensor : distant) in_order.emplace(tensor.name, &tensor);
  Sha256 hash;
  for (const auto& [name, far] : in_order) {
    if (far == nullptr) {
      add_to_hash(hash, name, tensors.at(name));
      continue;
    }
    hash.update(fmt::format("{} Float [{},{}]\n", name, far->rows, far->dim));
    read_all(*far, [&](const at::Tensor& block) {
      hash.update(std::as_bytes(std::span(block.data_ptr<float>(), static_cast<std::size_t>(block.numel()))));
    });
  }
  return hash.hex();
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const std::vector<RemoteTensor>& distant, const SavedMetadata& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  for (const auto& [name, tensor] : tensors) {
    header.entries.push_back({.name = name, .dtype = safetensors_dtype(name, tensor), .shape = tensor.sizes().vec()});
  }
  for (const auto& tensor : distant) {
    header.entries.push_back({.name = tensor.name, .dtype = "F32", .shape = {tensor.rows, tensor.dim}});
  }
  SafetensorsWriter writer(path, std::move(header));
  for (const auto& entry : writer.entries()) {
    const auto far = std::ranges::find(distant, entry.name, &RemoteTensor::name);
    if (far == distant.end()) {
      writer.write(tensors.at(entry.name));
    } else {
      read_all(*far, [&](const at::Tensor& block) { writer.write_rows(block); });
    }
  }
  writer.commit();
}

}  // namespace lockstep::state
