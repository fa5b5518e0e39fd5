// Configurations as they are read: the files under `base` first, each with its own keys merged over them; then the
// overrides KEY.PATH=VALUE; and the list of keys that each file gives.
#include <lockstep/base/config.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles =
    64;  // the limit, because each base may have bases, so that the number of readings could double each time

[[noreturn]] void fail_at(const FilePosition& position, std::string message) {
  throw Error(ErrorKind::config, "config", std::move(message), position);
}

std::string read_text(const fs::path& path, const FilePosition& named_at) {
  constexpr std::uintmax_t kLargest = 16u << 20;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fail_at(named_at, fmt::format("{} is a folder; name the YAML file in it", path.string()));
  }
  const auto size = fs::file_size(path, error);
  if (!error && size > kLargest) {
    fail_at(named_at, fmt::format("{} has {} bytes; that is not a configuration file (at most {})", path.string(), size,
                                  kLargest));
  }
  std::ifstream in(path, std::ios::binary);
  const int opened = errno;
  if (!in) {
    fail_at(named_at, fmt::format("cannot read {}: {}", path.string(), std::generic_category().message(opened)));
  }
  std::string text;
  std::array<char, 1 << 16> piece{};  // a pipe has no size, and may have no end
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kLargest) {
      fail_at(named_at,
              fmt::format("{} has more than {} bytes; that is not a configuration file", path.string(), kLargest));
    }
  }
  if (in.bad()) fail_at(named_at, fmt::format("cannot read {} to its end", path.string()));
  return text;
}

/// Merges maps by key; any other value replaces the earlier one.
void merge(ConfigNode& below, ConfigNode above) {
  if (below.kind != ConfigNode::Kind::map || above.kind != ConfigNode::Kind::map) {
    below = std::move(above);
    return;
  }
  below.position = above.position;
  std::unordered_map<std::string, std::size_t> places;  // a file may have many thousand keys
  for (std::size_t i = 0; i < below.entries.size(); ++i) places.emplace(below.entries[i].key, i);
  for (auto& entry : above.entries) {  // each key occurs once
    if (const auto found = places.find(entry.key); found != places.end()) {
      merge(below.entries[found->second].value, std::move(entry.value));
    } else {
      below.entries.push_back(std::move(entry));
    }
  }
}

struct Base {
  std::string name;
  FilePosition position;
};

/// Takes the key `base` out of `root`.
std::vector<Base> take_bases(ConfigNode& root) {
  if (const auto* foreign = root.find("_base_")) {
    fail_at(foreign->position, "there is no key '_base_'; here it is called 'base'");
  }
  const auto found = std::ranges::find(root.entries, "base", &ConfigNode::Entry::key);
  if (found == root.entries.end()) return {};
  const ConfigNode node = std::move(found->value);
  root.entries.erase(found);
  if (node.kind == ConfigNode::Kind::null) return {};
  std::vector<Base> bases;
  for (const auto& item : node.kind == ConfigNode::Kind::list ? node.items : std::vector{node}) {
    if (item.kind != ConfigNode::Kind::scalar || item.scalar.empty()) {
      fail_at(item.position, fmt::format("base: expected the name of a file, or a list of such names, e.g. "
                                         "[../common/sgd.yaml], found {}",
                                         describe_found(item)));
    }
    bases.push_back({item.scalar, item.position});
  }
  return bases;
}

/// The text of `file` as a section, which may be empty. Error(config) for text that is not YAML or is not a section.
ConfigNode parse_section(std::string_view text, const std::string& file) {
  ConfigNode root = parse_yaml(text, file);
  if (root.kind == ConfigNode::Kind::null) root.kind = ConfigNode::Kind::map;
  if (root.kind != ConfigNode::Kind::map) {
    fail_at(root.position,
            fmt::format("a configuration is made of 'key: value' lines, found {}", describe_found(root)));
  }
  root.position = {file, 0};
  return root;
}

class Files {
 public:
  ConfigNode read(const fs::path& path, const FilePosition& named_at) {
    enter(path, named_at);
    ConfigNode own = parse_section(read_text(path, named_at), path.string());
    ConfigNode merged = make_section();
    for (const auto& [name, position] : take_bases(own)) {
      merge(merged, read((path.parent_path() / name).lexically_normal(), position));
    }
    merge(merged, std::move(own));
    chain_.pop_back();
    if (std::ranges::find(names_, path.string()) == names_.end()) names_.push_back(path.string());
    return merged;
  }

  std::vector<std::string> names() && { return std::move(names_); }

 private:
  void enter(const fs::path& path, const FilePosition& named_at) {
    std::error_code unknown;
    const fs::path file = fs::weakly_canonical(path, unknown);
    const auto same = [&](const auto& each) { return each.first == file; };
    const bool again = std::ranges::any_of(chain_, same);
    chain_.emplace_back(file, path.string());
    if (again) fail_at(named_at, fmt::format("base: a file cannot be its own base: {}", chain_text()));
    if (++readings_ > kMostFiles) {
      fail_at(named_at, fmt::format("base: more than {} files are read for one configuration", kMostFiles));
    }
    if (!named_at.file.empty() && !fs::exists(path, unknown)) {
      fail_at(named_at, fmt::format("base: there is no file {} (named in {})", path.string(), chain_text()));
    }
  }

  std::string chain_text() const {
    std::vector<std::string> names;
    for (const auto& [file, name] : chain_) names.push_back(name);
    return fmt::format("{}", fmt::join(names, " -> "));
  }

  std::vector<std::pair<fs::path, std::string>> chain_;  ///< from the configuration to the file that is being read
  std::vector<std::string> names_;
  std::size_t readings_ = 0;
};

/// Reads `path` over its bases. Each value has the position in its own file.
ConfigSource read_config_files(const fs::path& path) {
  Files files;
  ConfigSource source{.file = path.string(), .root = files.read(path, {})};
  source.files = std::move(files).names();
  return source;
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
