#include <lockstep/base/config_source.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/yaml_text.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

std::string read_text(const std::filesystem::path& path) {
  constexpr std::uintmax_t kLargest = 16u << 20;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    fail(ErrorKind::config, "config", "{} is a folder; name the YAML file in it", path.string());
  }
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > kLargest) {
    fail(ErrorKind::config, "config", "{} has {} bytes; that is no configuration file (at most {})", path.string(),
         size, kLargest);
  }
  std::ifstream in(path, std::ios::binary);
  const int opened = errno;
  if (!in)
    fail(ErrorKind::config, "config", "cannot read {}: {}", path.string(), std::generic_category().message(opened));
  std::string text;
  std::array<char, 1 << 16> piece{};  // a pipe has no size, and may have no end
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kLargest) {
      fail(ErrorKind::config, "config", "{} has more than {} bytes; that is no configuration file", path.string(),
           kLargest);
    }
  }
  if (in.bad()) fail(ErrorKind::config, "config", "cannot read {} to its end", path.string());
  return text;
}

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
      fmt::format("'{}' is no section but {}; override it as a whole: {}=...", path, describe_found(node), path),
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
    throw Error(ErrorKind::config, "config", "an override reads key.path=value, e.g. train.epochs=3", position);
  }
  Override result{text.substr(0, equals), {}, position};
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

}  // namespace

ConfigSource load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return parse_config(read_text(path), path.string(), overrides);
}

ConfigSource parse_config(std::string_view text, std::string file, std::span<const std::string> overrides) {
  ConfigSource source{std::move(file), {}};
  source.root = parse_yaml(text, source.file);
  if (source.root.kind == ConfigNode::Kind::null) source.root.kind = ConfigNode::Kind::map;
  if (source.root.kind != ConfigNode::Kind::map) {
    throw Error(ErrorKind::config, "config",
                fmt::format("a configuration is made of 'key: value' lines, found {}", describe_found(source.root)),
                source.root.position);
  }
  source.root.position = {source.file, 0};
  for (const auto& text_of_override : overrides) apply(parse_override(text_of_override), source.root);
  return source;
}

}  // namespace lockstep
