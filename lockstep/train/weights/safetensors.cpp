// Whole safetensors files to and from maps of tensors, through the streaming reader and writer.
#include <lockstep/train/weights/safetensors.h>

#include <lockstep/train/weights/safetensors_stream.h>

#include <torch/torch.h>

namespace lockstep::train {

void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors, const TensorMetadata& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  for (const auto& [name, tensor] : tensors) {
    header.entries.push_back({.name = name, .dtype = safetensors_dtype(name, tensor), .shape = tensor.sizes().vec()});
  }
  SafetensorsWriter writer(path, std::move(header));
  for (const auto& entry : writer.entries()) writer.write(tensors.at(entry.name));
  writer.commit();
}

TensorMap load_safetensors(const std::filesystem::path& path) {
  SafetensorsReader reader(path);
  TensorMap tensors;
  for (const auto& entry : reader.header().entries) tensors.emplace(entry.name, reader.read(entry));
  return tensors;
}

TensorMetadata load_safetensors_metadata(const std::filesystem::path& path) {
  return SafetensorsReader(path).header().metadata;
}

}  // namespace lockstep::train
