// Whole safetensors files to and from maps of tensors, through the streaming reader and writer.
#include <lockstep/state/safetensors.h>

#include <lockstep/state/safetensors_stream.h>

#include <torch/torch.h>

namespace lockstep::state {

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const SavedMetadata& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  for (const auto& [name, tensor] : tensors) {
    header.entries.push_back({.name = name, .dtype = safetensors_dtype(name, tensor), .shape = tensor.sizes().vec()});
  }
  SafetensorsWriter writer(path, std::move(header));
  for (const auto& entry : writer.entries()) writer.write(tensors.at(entry.name));
  writer.commit();
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

}  // namespace lockstep::state
