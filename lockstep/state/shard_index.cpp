// The parser and printer of a weight map as JSON, which refuses paths that leave the folder of the index.
#include <lockstep/state/shard_index.h>

#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/strict_json.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace lockstep::state {
namespace {

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
