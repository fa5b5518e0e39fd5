#include <lockstep/base/error.h>
#include <lockstep/train/pth/archive.h>
#include <lockstep/train/pth/load.h>
#include <lockstep/train/weights/safetensors_stream.h>

#include <torch/torch.h>

#include <algorithm>
#include <fstream>

namespace lockstep::train {
namespace {

at::Tensor read_storage(const PthArchive& archive, const StoredTensor& tensor) {
  const auto bytes = archive.storage_bytes(tensor);
  const auto elements = bytes / tensor.element_bytes;
  auto storage = torch::empty({static_cast<std::int64_t>(elements)}, scalar_type_of(tensor.dtype));
  archive.read_storage(tensor, {static_cast<char*>(storage.data_ptr()), bytes});
  return storage;
}

at::Tensor view_of(const at::Tensor& storage, const StoredTensor& tensor) {
  const bool empty = std::ranges::find(tensor.sizes, 0) != tensor.sizes.end();
  if (empty) return torch::empty(tensor.sizes, storage.options());  // its offset may be anywhere
  return storage.as_strided(tensor.sizes, tensor.strides, tensor.offset);
}

}  // namespace

PthTensors load_pth(const std::filesystem::path& path) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  std::ifstream stream(path, std::ios::binary);
  if (failed || !stream) fail(ErrorKind::io, "pth", "cannot read {}", path.string());
  const PthArchive archive({size,
                            [&](std::uint64_t from, std::span<char> into) {
                              stream.seekg(static_cast<std::streamoff>(from));
                              stream.read(into.data(), static_cast<std::streamsize>(into.size()));
                              if (!stream) fail(ErrorKind::io, "pth", "cannot read {}", path.string());
                            }},
                           path);
  PthTensors found{{}, archive.state().place, archive.state().others};
  TensorMap storages;
  for (const auto& tensor : archive.state().tensors) {
    auto storage = storages.find(tensor.storage);
    if (storage == storages.end()) storage = storages.emplace(tensor.storage, read_storage(archive, tensor)).first;
    found.tensors.emplace(tensor.name, view_of(storage->second, tensor));
  }
  return found;
}

}  // namespace lockstep::train
