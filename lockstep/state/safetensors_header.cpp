// Strict parsers and printers of text: headers of safetensors files, and indexes of weights in several files.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/base/text.h>
#include <lockstep/state/safetensors_header.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

namespace lockstep::state {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files hold little-endian values");

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kMaxDimensions = 64;  // what libtorch's kernels can iterate over

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 10> kElementBytes = {{
    {"F64", 8},
    {"I64", 8},
    {"F32", 4},
    {"I32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"I16", 2},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
}};

/// Reports the errors of one file.
class Complaint {
 public:
  explicit Complaint(const std::filesystem::path& file) : file_(file) {}

  template <typename... Args>
  [[noreturn]] void header(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::data, "safetensors", "the header " + fmt::format(format, std::forward<Args>(args)...),
                {file_.string(), 0});
  }

  template <typename... Args>
  [[noreturn]] void tensor(std::string_view name, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::data, "safetensors",
                fmt::format("tensor \"{}\" {}", name, fmt::format(format, std::forward<Args>(args)...)),
                {file_.string(), 0});
  }

 private:
  const std::filesystem::path& file_;
};

json parse_strictly(std::string_view text, const Complaint& wrong) {
  constexpr std::size_t kDeepest = 3;  // the header, a tensor, its shape
  auto parsed = parse_strict_json(text, kDeepest);
  if (const auto* mistake = std::get_if<std::string>(&parsed)) wrong.header("{}", *mistake);
  return std::move(std::get<json>(parsed));
}

/// Non-negative integer that fits std::int64_t.
std::optional<std::int64_t> as_size(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::vector<std::int64_t> read_shape(const json& value, std::string_view name, const Complaint& wrong) {
  if (!value.is_array()) wrong.tensor(name, "has a \"shape\" that is not a list");
  if (value.size() > kMaxDimensions) {
    wrong.tensor(name, "has {} dimensions; at most {} are supported", value.size(), kMaxDimensions);
  }
  std::vector<std::int64_t> shape;
  for (const auto& dimension : value) {
    const auto size = as_size(dimension);
    if (!size) wrong.tensor(name, "has {} in its \"shape\"; sizes are integers from 0", dimension.dump());
    shape.push_back(*size);
  }
  return shape;
}

std::pair<std::uint64_t, std::uint64_t> read_offsets(const json& value, std::string_view name, const Complaint& wrong) {
  const bool is_pair = value.is_array() && value.size() == 2;
  const auto begin = is_pair ? as_size(value[0]) : std::nullopt;
  const auto end = is_pair ? as_size(value[1]) : std::nullopt;
  if (!begin || !end) wrong.tensor(name, "needs \"data_offsets\" [begin, end], two integers from 0");
  return {static_cast<std::uint64_t>(*begin), static_cast<std::uint64_t>(*end)};
}

/// Bytes that `entry` needs. A size of 0 counts as 1 towards the check for overflow, because strides multiply the rest.
std::uint64_t needed_bytes(const SafetensorsEntry& entry, const Complaint& wrong) {
  std::uint64_t limit = std::numeric_limits<std::int64_t>::max() / safetensors_element_bytes(entry.dtype);
  std::uint64_t bytes = safetensors_element_bytes(entry.dtype);
  for (const auto size : entry.shape) {
    limit /= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (limit == 0) wrong.tensor(entry.name, "has a \"shape\" with more bytes than 64 bits can count");
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

SafetensorsEntry read_entry(const std::string& name, const json& value, const Complaint& wrong) {
  if (!value.is_object()) wrong.tensor(name, "is not described by a JSON object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) wrong.tensor(name, "has no \"{}\"", key);
  }
  SafetensorsEntry entry{.name = name, .dtype = {}, .shape = read_shape(value["shape"], name, wrong)};
  if (!value["dtype"].is_string()) wrong.tensor(name, "has a \"dtype\" that is not a string");
  entry.dtype = value["dtype"].get<std::string>();
  std::tie(entry.begin, entry.end) = read_offsets(value["data_offsets"], name, wrong);
  if (entry.end < entry.begin) wrong.tensor(name, "ends at byte {}, before it begins at {}", entry.end, entry.begin);
  if (safetensors_element_bytes(entry.dtype) == 0) return entry;  // a reader of this tensor gets an error
  const auto needed = needed_bytes(entry, wrong);
  if (entry.end - entry.begin != needed) {
    wrong.tensor(name, "has {} bytes in the file, but its dtype and shape need {}", entry.end - entry.begin, needed);
  }
  return entry;
}

void require_full_cover(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes,
                        const Complaint& wrong) {
  std::uint64_t covered = 0;
  for (const auto& entry : entries) {
    if (entry.end > data_bytes) {
      wrong.tensor(entry.name, "ends at byte {} of the data, but the file has only {}: it was cut short", entry.end,
                   data_bytes);
    }
    if (entry.begin < covered)
      wrong.tensor(entry.name, "overlaps the tensor before it, which ends at byte {}", covered);
    if (entry.begin > covered) {
      wrong.tensor(entry.name, "begins at byte {}, but the tensor before it ends at {}: a gap", entry.begin, covered);
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    wrong.header(
        "describes {} bytes of data, but the file has {}: it is damaged, or holds more than its header describes",
        covered, data_bytes);
  }
}

using nlohmann::json;

template <typename... Args>
[[noreturn]] void wrong_index(const std::filesystem::path& file, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::data, "load_weights", "the index " + fmt::format(format, std::forward<Args>(args)...),
              {file.string(), 0});
}

bool is_printable(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

/// The value is either the file's name, or an object that contains it.
std::string file_in(const json& value, std::string_view tensor, const std::filesystem::path& file) {
  const json* name = &value;
  if (value.is_object() && value.contains("file")) name = &value["file"];
  if (!name->is_string()) wrong_index(file, "names no file for the tensor \"{}\"", cut_text(tensor));
  const auto text = name->get<std::string>();
  const std::filesystem::path path(text);
  const bool leaves = path.is_absolute() || std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
  if (text.empty() || leaves || !is_printable(text)) {
    wrong_index(file, "names the file \"{}\" for the tensor \"{}\"; only files in the folder of the index are read",
                cut_text(text), cut_text(tensor));
  }
  return text;
}

}  // namespace

std::uint64_t safetensors_element_bytes(std::string_view dtype) {
  const auto* found = std::ranges::find(kElementBytes, dtype, [](const auto& known) { return known.first; });
  return found == kElementBytes.end() ? 0 : found->second;
}

void lay_out(SafetensorsHeader& header) {
  std::ranges::sort(header.entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    const auto a_bytes = safetensors_element_bytes(a.dtype);
    const auto b_bytes = safetensors_element_bytes(b.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
  });
  std::uint64_t offset = 0;
  for (auto& entry : header.entries) {
    entry.begin = offset;
    for (offset = safetensors_element_bytes(entry.dtype); const auto size : entry.shape) {
      offset *= static_cast<std::uint64_t>(size);
    }
    offset += entry.begin;
    entry.end = offset;
  }
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  json object = json::object();
  if (!header.metadata.empty()) object[std::string(kMetadata)] = header.metadata;
  for (const auto& entry : header.entries) {
    if (entry.name == kMetadata) {
      fail(ErrorKind::invalid_argument, "safetensors", "no tensor may be called \"{}\"; give it another name",
           kMetadata);
    }
    object[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text;
  try {
    text = object.dump();
  } catch (const json::exception& error) {
    fail(ErrorKind::invalid_argument, "safetensors", "names and metadata must be UTF-8: {}", error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(text.size()));
  return std::string(length.begin(), length.end()) + text;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           const std::filesystem::path& file) {
  const Complaint wrong(file);
  if (!text.starts_with('{')) wrong.header("does not begin with '{{': this is not a safetensors file");
  SafetensorsHeader header;
  const auto object = parse_strictly(text, wrong);
  for (const auto& [name, value] : object.items()) {
    if (name != kMetadata) {
      header.entries.push_back(read_entry(name, value, wrong));
      continue;
    }
    if (!value.is_object()) wrong.header("has a \"__metadata__\" that is not a JSON object");
    for (const auto& [key, word] : value.items()) {
      if (!word.is_string()) wrong.header("has a value in \"__metadata__\" that is not a string: \"{}\"", key);
      header.metadata[key] = word.get<std::string>();
    }
  }
  std::ranges::sort(header.entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  require_full_cover(header.entries, data_bytes, wrong);
  return header;
}

ShardFiles parse_shard_index(std::string_view text, const std::filesystem::path& file) {
  constexpr std::size_t kDeepest = 8;  // of metadata, which are ignored
  if (text.starts_with("version https://git-lfs")) {
    wrong_index(file, "is a pointer of Git LFS, not the file itself; fetch that with 'git lfs pull'");
  }
  const auto parsed = parse_strict_json(text, kDeepest);
  if (const auto* mistake = std::get_if<std::string>(&parsed)) wrong_index(file, "{}", *mistake);
  const auto& index = std::get<json>(parsed);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    wrong_index(file, "has no \"weight_map\", an object that maps the names of tensors to files");
  }
  ShardFiles files;
  for (const auto& [name, value] : index["weight_map"].items()) {
    if (!is_printable(name)) wrong_index(file, "has a name with control characters: \"{}\"", cut_text(name));
    files.emplace(name, file_in(value, name, file));
  }
  return files;
}

std::string format_shard_index(const ShardFiles& files, std::uint64_t total_bytes) {
  json index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", json::object()}};
  for (const auto& [name, file] : files) index["weight_map"][name] = file;
  return index.dump(2) + "\n";
}

std::string shard_name(std::size_t number, std::size_t of) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number, of);
}

}  // namespace lockstep::state
