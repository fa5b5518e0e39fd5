// Tensors as strided views of storages that are read from a torch.save archive, one byte tensor per storage.
#include <lockstep/base/error.h>
#include <lockstep/state/pth/archive.h>
#include <lockstep/state/pth/load.h>
#include <lockstep/state/safetensors.h>

#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace lockstep::state {
namespace {

/// A tensor of bytes, because views of it may have different dtypes.
at::Tensor read_storage(const PthArchive& archive, const StoredTensor& tensor) {
  const auto bytes = archive.storage_bytes(tensor);
  auto storage = torch::empty({static_cast<std::int64_t>(bytes)}, torch::kByte);
  archive.read_storage(tensor, {static_cast<char*>(storage.data_ptr()), bytes});
  return storage;
}

at::Tensor view_of(const at::Tensor& storage, const StoredTensor& tensor) {
  const auto dtype = scalar_type_of(tensor.dtype);
  const bool empty = std::ranges::find(tensor.sizes, 0) != tensor.sizes.end();
  if (empty) return torch::empty(tensor.sizes, storage.options().dtype(dtype));  // its offset may be anywhere
  const auto each = static_cast<std::int64_t>(tensor.element_bytes);
  const auto elements = storage.narrow(0, 0, storage.numel() / each * each).view(dtype);
  return elements.as_strided(tensor.sizes, tensor.strides, tensor.offset);
}

/// The same bytes may also be bools of another tensor.
void require_bools(const at::Tensor& storage, const StoredTensor& tensor, const std::filesystem::path& path) {
  if (storage.numel() == 0 || storage.max().item<std::uint8_t>() <= 1) return;
  throw Error(ErrorKind::data, "pth",
              fmt::format("tensor \"{}\" is BOOL and has bytes other than 0 and 1", tensor.name), {path.string(), 0});
}

}  // namespace

PthTensors load_pth(const std::filesystem::path& path, const std::string& place) {
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
                           path, place);
  PthTensors found{{}, archive.state().place, archive.state().others};
  NamedTensors storages;
  std::set<std::string> checked;
  for (const auto& tensor : archive.state().tensors) {
    auto storage = storages.find(tensor.storage);
    if (storage == storages.end()) storage = storages.emplace(tensor.storage, read_storage(archive, tensor)).first;
    if (tensor.dtype == "BOOL" && checked.insert(tensor.storage).second) require_bools(storage->second, tensor, path);
    found.tensors.emplace(tensor.name, view_of(storage->second, tensor));
  }
  return found;
}

}  // namespace lockstep::state
