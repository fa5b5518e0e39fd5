// Overrides KEY.PATH=VALUE over a tree of configuration files, and the list of keys that each file gives.
#include <lockstep/base/config.h>
#include <lockstep/base/config_files.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

void stamp(ConfigNode& node, const FilePosition& position) {
  node.position = position;
  for (auto& item : node.items) stamp(item, position);
  for (auto& entry : node.entries) stamp(entry.value, position);
}

ConfigNode& find_or_add(ConfigNode& map, std::string_view key, const FilePosition& position) {
  for (auto& entry : map.entries) {
    if (entry.key == key) return entry.value;
  }
  return map.entries.emplace_back(ConfigNode::Entry{std::string(key), make_null(position)}).value;
}

// Makes a null node, which is a parent on `path`, a section. Error(config) for another kind of node.
void require_section(ConfigNode& node, std::string_view path, const FilePosition& position) {
  if (node.kind == ConfigNode::Kind::null) node.kind = ConfigNode::Kind::map;
  if (node.kind == ConfigNode::Kind::map) return;
  throw Error(
      ErrorKind::config, "config",
      fmt::format("'{}' is not a section but {}; override it as a whole: {}=...", path, describe_found(node), path),
      position);
}

struct Override {
  std::string_view path;
  ConfigNode value;
  FilePosition position;
};

Override parse_override(std::string_view text) {
  const FilePosition position{fmt::format("override '{}'", cut_text(text, 200)), 0};
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw Error(ErrorKind::config, "config", "an override has the form key.path=value, e.g. train.epochs=3", position);
  }
  Override result{text.substr(0, equals), {}, position};
  if (result.path == "base") {
    throw Error(ErrorKind::config, "config", "base is a key for files; write it into a file, and give that file",
                position);
  }
  if (result.path.front() == '.' || result.path.back() == '.' || result.path.find("..") != std::string_view::npos) {
    throw Error(ErrorKind::config, "config", "the key of an override has an empty part; write e.g. train.epochs=3",
                position);
  }
  try {
    result.value = parse_yaml(text.substr(equals + 1), position.file);
  } catch (const Error& error) {  // the same message without the line number, which is meaningless in an override
    throw Error(ErrorKind::config, "config", error.message(), position);
  }
  stamp(result.value, position);
  return result;
}

void apply(const Override& change, ConfigNode& root) {
  ConfigNode* node = &root;
  std::size_t begin = 0;
  while (begin <= change.path.size()) {
    const std::size_t end = std::min(change.path.find('.', begin), change.path.size());
    if (begin > 0) require_section(*node, change.path.substr(0, begin - 1), change.position);
    node = &find_or_add(*node, change.path.substr(begin, end - begin), change.position);
    begin = end + 1;
  }
  *node = change.value;
}

constexpr const char* kCommandLine = "the command line";

/// Appends the path of each value below `node` to the keys of its file.
void list_keys(const ConfigNode& node, const std::string& path,
               std::vector<std::pair<std::string, std::string>>& keys) {
  if (node.kind == ConfigNode::Kind::map && !node.entries.empty()) {
    for (const auto& [key, value] : node.entries) list_keys(value, path.empty() ? key : path + "." + key, keys);
    return;
  }
  const auto file = std::ranges::find(keys, node.position.file, &std::pair<std::string, std::string>::first);
  auto& names = file == keys.end() ? keys.back().second : file->second;  // an override names itself as its file
  names += names.empty() ? path : ", " + path;
}

void apply_all(std::span<const std::string> overrides, ConfigNode& root) {
  for (const auto& text : overrides) apply(parse_override(text), root);
}

}  // namespace

ConfigSource load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  ConfigSource source = read_config_files(path);
  apply_all(overrides, source.root);
  return source;
}

ConfigSource parse_config(std::string_view text, std::string file, std::span<const std::string> overrides) {
  ConfigNode root = parse_section(text, file);
  ConfigSource source{.file = file, .root = std::move(root), .files = {file}};
  apply_all(overrides, source.root);
  return source;
}

std::string describe_origins(const ConfigSource& source) {
  if (source.files.size() < 2) return "";
  std::vector<std::pair<std::string, std::string>> keys;  // by file
  for (const auto& file : source.files) keys.emplace_back(file, "");
  keys.emplace_back(kCommandLine, "");
  list_keys(source.root, "", keys);
  std::string text = fmt::format("# configuration: {}\n", fmt::join(source.files, ", then "));
  for (const auto& [file, names] : keys) {
    if (!names.empty()) text += fmt::format("# {} gives {}\n", file, names);
  }
  return text;
}

}  // namespace lockstep
