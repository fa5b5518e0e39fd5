// Reading and writing safetensors files: dtypes, a reader and a writer of single tensors and rows, and whole files.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/tensors.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <span>
#include <string>
#include <utility>

namespace lockstep::state {
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

void read_exactly(std::ifstream& stream, const fs::path& path, std::span<char> into) {
  stream.read(into.data(), static_cast<std::streamsize>(into.size()));
  if (stream.gcount() == static_cast<std::streamsize>(into.size())) return;
  fail(ErrorKind::io, "safetensors", "cannot read {}: it ended {} bytes early", path.string(),
       static_cast<std::streamsize>(into.size()) - stream.gcount());
}

bool is_page(std::string_view begin) {
  const auto first = begin.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  std::string tag(begin.substr(std::min(first, begin.size()), 9));
  std::ranges::transform(tag, tag.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return tag.starts_with("<html") || tag.starts_with("<!doctype") || tag.starts_with("<?xml") ||
         tag.starts_with("<head");
}

/// The usual other kinds of files are those of torch.save(), a zip archive or an older pickle, and failed downloads: a
/// page with an error message, or a pointer file of Git LFS.
void require_no_other_kind(std::ifstream& stream, const fs::path& path) {
  std::string begin(256, '\0');
  stream.clear();
  stream.seekg(0);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  if (begin.starts_with("version https://git-lfs")) {
    throw Error(
        ErrorKind::data, "safetensors",
        "this is a pointer of Git LFS, not the file itself; fetch that with 'git lfs pull', or download it from "
        "its page",
        {path.string(), 0});
  }
  if (is_page(begin)) {
    throw Error(ErrorKind::data, "safetensors",
                "this is an HTML page, which a download wrote instead of the file; open it to read its message, and "
                "download the file itself",
                {path.string(), 0});
  }
  const auto is_text = [](unsigned char c) { return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\r' || c == '\t'; };
  if (!begin.empty() && std::ranges::all_of(begin, is_text)) {
    throw Error(ErrorKind::data, "safetensors",
                "this is a text; weights are a safetensors file, a .pth of torch.save, or a checkpoint",
                {path.string(), 0});
  }
  const auto kind = kind_of_file(begin);
  if (kind.empty()) return;
  const bool from_torch = kind == "a zip archive" || kind == "a Python pickle";
  throw Error(
      ErrorKind::data, "safetensors",
      fmt::format("this is {}, not a safetensors file{}", kind,
                  from_torch ? ", as torch.save() writes for .pth and .pt; convert the state_dict in it with Python: "
                               "safetensors.torch.save_file(torch.load(\"model.pth\"), \"model.safetensors\")"
                             : ""),
      {path.string(), 0});
}

/// The header's length, checked against the file's so that a damaged number takes no memory.
std::uint64_t read_header_length(std::ifstream& stream, const fs::path& path, std::uint64_t file_bytes) {
  if (file_bytes < 8) {
    if (file_bytes > 0) require_no_other_kind(stream, path);
    throw Error(ErrorKind::data, "safetensors",
                fmt::format("the file has {} bytes; even an empty safetensors file has more than 8", file_bytes),
                {path.string(), 0});
  }
  std::array<char, 8> bytes{};
  read_exactly(stream, path, bytes);
  const auto length = std::bit_cast<std::uint64_t>(bytes);
  const auto limit = std::min(kMaxSafetensorsHeader, file_bytes - 8);
  if (length > limit) {
    require_no_other_kind(stream, path);  // only now: the bytes of a length may look like another format
    throw Error(
        ErrorKind::data, "safetensors",
        fmt::format("the header claims {} bytes; at most {} are possible in this file of {}: it was cut short or "
                    "is not a safetensors file",
                    length, limit, file_bytes),
        {path.string(), 0});
  }
  return length;
}

constexpr std::int64_t kBytesOfBlock = std::int64_t{4} << 20;

void read_all(const RemoteTensor& tensor, const std::function<void(const at::Tensor&)>& take) {
  const auto rows = std::max<std::int64_t>(1, kBytesOfBlock / (4 * tensor.dim));
  for (std::int64_t first = 0; first < tensor.rows; first += rows) {
    take(tensor.read(first, std::min(rows, tensor.rows - first)));
  }
}

}  // namespace

std::string safetensors_dtype(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) fail(ErrorKind::invalid_argument, "safetensors", "tensor \"{}\" is undefined", name);
  const auto* found = std::ranges::find(kDtypes, tensor.scalar_type(), [](const auto& known) { return known.second; });
  if (found == kDtypes.end() || tensor.layout() != at::kStrided) {
    fail(ErrorKind::invalid_argument, "safetensors",
         "tensor \"{}\" is {} {}; the format holds dense float64, float32, float16, bfloat16, int64, int32, int16, "
         "int8, uint8 and bool only; convert it",
         name, tensor.layout() == at::kStrided ? "dense" : "sparse", at::toString(tensor.scalar_type()));
  }
  return std::string(found->first);
}

at::ScalarType scalar_type_of(std::string_view dtype) {
  const auto* found = std::ranges::find(kDtypes, dtype, [](const auto& known) { return known.first; });
  if (found == kDtypes.end()) {
    fail(ErrorKind::data, "safetensors", "a tensor has dtype \"{}\"; known are F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL",
         cut_text(dtype));
  }
  return found->second;
}

SafetensorsReader::SafetensorsReader(fs::path path) : path_(std::move(path)) {
  std::error_code failed;
  // A read of a pipe would block; a folder cannot be read.
  if (const auto type = fs::status(path_, failed).type();
      type != fs::file_type::regular && type != fs::file_type::none && type != fs::file_type::not_found) {
    throw Error(ErrorKind::data, "safetensors",
                type == fs::file_type::directory ? "this is a folder, not a file" : "this is not a regular file",
                {path_.string(), 0});
  }
  const auto file_bytes = fs::file_size(path_, failed);
  if (failed) fail(ErrorKind::io, "safetensors", "cannot read {}: {}", path_.string(), failed.message());
  stream_.open(path_, std::ios::binary);
  if (!stream_) fail(ErrorKind::io, "safetensors", "cannot open {} for reading", path_.string());
  const auto length = read_header_length(stream_, path_, file_bytes);
  std::string text(length, '\0');
  read_exactly(stream_, path_, text);
  header_ = parse_safetensors_header(text, file_bytes - 8 - length, path_);
  data_begin_ = 8 + length;
  for (std::size_t i = 0; i < header_.entries.size(); ++i) by_name_.emplace(header_.entries[i].name, i);
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.entries[found->second];
}

at::Tensor SafetensorsReader::read(const SafetensorsEntry& entry) { return read(entry, entry.shape, entry.begin); }

at::Tensor SafetensorsReader::read_rows(const SafetensorsEntry& entry, std::int64_t first, std::int64_t rows) {
  auto shape = entry.shape;
  shape.at(0) = rows;
  const auto row_bytes = (entry.end - entry.begin) / static_cast<std::uint64_t>(entry.shape.at(0));
  return read(entry, shape, entry.begin + static_cast<std::uint64_t>(first) * row_bytes);
}

at::Tensor SafetensorsReader::read(const SafetensorsEntry& entry, const std::vector<std::int64_t>& shape,
                                   std::uint64_t begin) {
  if (safetensors_element_bytes(entry.dtype) == 0) {
    throw Error(ErrorKind::data, "safetensors",
                fmt::format("tensor \"{}\" has dtype \"{}\"; known are F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL",
                            cut_text(entry.name), cut_text(entry.dtype)),
                {path_.string(), 0});
  }
  auto tensor = torch::empty(shape, scalar_type_of(entry.dtype));
  const std::span bytes(static_cast<char*>(tensor.data_ptr()), tensor.nbytes());
  stream_.seekg(static_cast<std::streamoff>(data_begin_ + begin));
  read_exactly(stream_, path_, bytes);
  // Every use of a bool with another byte is undefined behaviour.
  if (tensor.scalar_type() == at::kBool &&
      std::ranges::any_of(bytes, [](char byte) { return byte != 0 && byte != 1; })) {
    throw Error(ErrorKind::data, "safetensors",
                fmt::format("tensor \"{}\" is BOOL and has bytes other than 0 and 1", entry.name), {path_.string(), 0});
  }
  return tensor;
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, SafetensorsHeader header)
    : header_((lay_out(header), std::move(header))), file_(path) {
  file_.write(format_safetensors_header(header_));
}

void SafetensorsWriter::write(const at::Tensor& tensor) {
  const auto& entry = header_.entries.at(next_++);
  const auto values = tensor.detach().cpu().contiguous();
  file_.write({static_cast<const std::byte*>(values.data_ptr()), entry.end - entry.begin});
}

void SafetensorsWriter::write_rows(const at::Tensor& rows) {
  const auto& entry = header_.entries.at(next_);
  file_.write({static_cast<const std::byte*>(rows.data_ptr()), rows.nbytes()});
  written_ += rows.nbytes();
  if (written_ < entry.end - entry.begin) return;
  written_ = 0;
  ++next_;
}

void SafetensorsWriter::commit() { file_.commit(); }

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
