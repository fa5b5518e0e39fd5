#include <lockstep/train/safetensors.h>

#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/train/safetensors_header.h>

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <span>
#include <utility>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kDtypes = {{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

at::ScalarType scalar_type(std::string_view dtype) {
  return std::ranges::find(kDtypes, dtype, [](const auto& known) { return known.first; })->second;
}

std::string dtype_name(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) fail(ErrorKind::invalid_argument, "safetensors", "tensor \"{}\" is undefined", name);
  const auto* found = std::ranges::find(kDtypes, tensor.scalar_type(), [](const auto& known) { return known.second; });
  if (found == kDtypes.end() || tensor.layout() != at::kStrided) {
    fail(ErrorKind::invalid_argument, "safetensors",
         "tensor \"{}\" is {} {}; the format holds dense float64, float32, float16, bfloat16, int64, int32, int16, "
         "int8, "
         "uint8 and bool only; convert it",
         name, tensor.layout() == at::kStrided ? "dense" : "sparse", at::toString(tensor.scalar_type()));
  }
  return std::string(found->first);
}

SafetensorsHeader describe(const TensorMap& tensors, const TensorMetadata& metadata) {
  SafetensorsHeader header{.entries = {}, .metadata = metadata};
  for (const auto& [name, tensor] : tensors) {
    header.entries.push_back({.name = name, .dtype = dtype_name(name, tensor), .shape = tensor.sizes().vec()});
  }
  lay_out(header);
  return header;
}

/// An open file and its checked header; the stream stands at the first byte of the data.
struct OpenFile {
  std::ifstream stream;
  SafetensorsHeader header;
};

void read_exactly(std::ifstream& stream, const fs::path& path, std::span<char> into) {
  stream.read(into.data(), static_cast<std::streamsize>(into.size()));
  if (stream.gcount() == static_cast<std::streamsize>(into.size())) return;
  fail(ErrorKind::io, "safetensors", "cannot read {}: it ended {} bytes early", path.string(),
       static_cast<std::streamsize>(into.size()) - stream.gcount());
}

/// The header's length, checked against the file's so that a damaged number takes no memory.
std::uint64_t read_header_length(std::ifstream& stream, const fs::path& path, std::uint64_t file_bytes) {
  if (file_bytes < 8) {
    throw Error(ErrorKind::data, "safetensors",
                fmt::format("the file has {} bytes; even an empty safetensors file has more than 8", file_bytes),
                {path.string(), 0});
  }
  std::array<char, 8> bytes{};
  read_exactly(stream, path, bytes);
  const auto length = std::bit_cast<std::uint64_t>(bytes);
  const auto limit = std::min(kMaxSafetensorsHeader, file_bytes - 8);
  if (length > limit) {
    throw Error(
        ErrorKind::data, "safetensors",
        fmt::format("the header claims {} bytes; at most {} are possible in this file of {}: it was cut short or "
                    "is not a safetensors file",
                    length, limit, file_bytes),
        {path.string(), 0});
  }
  return length;
}

OpenFile open_checked(const fs::path& path) {
  std::error_code failed;
  const auto file_bytes = fs::file_size(path, failed);
  if (failed) fail(ErrorKind::io, "safetensors", "cannot read {}: {}", path.string(), failed.message());
  OpenFile file{.stream = std::ifstream(path, std::ios::binary), .header = {}};
  if (!file.stream) fail(ErrorKind::io, "safetensors", "cannot open {} for reading", path.string());
  const auto length = read_header_length(file.stream, path, file_bytes);
  std::string text(length, '\0');
  read_exactly(file.stream, path, text);
  file.header = parse_safetensors_header(text, file_bytes - 8 - length, path);
  return file;
}

at::Tensor read_tensor(OpenFile& file, const SafetensorsEntry& entry, const fs::path& path) {
  auto tensor = torch::empty(entry.shape, scalar_type(entry.dtype));
  const std::span bytes(static_cast<char*>(tensor.data_ptr()), entry.end - entry.begin);
  read_exactly(file.stream, path, bytes);
  // A bool with another byte in it is undefined behaviour wherever it is used.
  if (tensor.scalar_type() == at::kBool &&
      std::ranges::any_of(bytes, [](char byte) { return byte != 0 && byte != 1; })) {
    throw Error(ErrorKind::data, "safetensors",
                fmt::format("tensor \"{}\" is BOOL and has bytes other than 0 and 1", entry.name), {path.string(), 0});
  }
  return tensor;
}

}  // namespace

void save_safetensors(const fs::path& path, const TensorMap& tensors, const TensorMetadata& metadata) {
  const auto header = describe(tensors, metadata);
  const auto head = format_safetensors_header(header);
  AtomicFile file(path);
  file.write(head);
  for (const auto& entry : header.entries) {
    const auto tensor = tensors.at(entry.name).detach().cpu().contiguous();
    file.write({static_cast<const std::byte*>(tensor.data_ptr()), entry.end - entry.begin});
  }
  file.commit();
}

TensorMap load_safetensors(const fs::path& path) {
  auto file = open_checked(path);
  TensorMap tensors;
  for (const auto& entry : file.header.entries) tensors.emplace(entry.name, read_tensor(file, entry, path));
  return tensors;
}

TensorMetadata load_safetensors_metadata(const fs::path& path) { return open_checked(path).header.metadata; }

}  // namespace lockstep::train
