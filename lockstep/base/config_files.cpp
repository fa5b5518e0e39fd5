// A recursive reader of YAML configurations: reads the files under `base` first, then merges the file's own keys over
// them.
#include <lockstep/base/config_files.h>
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

}  // namespace

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

ConfigSource read_config_files(const fs::path& path) {
  Files files;
  ConfigSource source{.file = path.string(), .root = files.read(path, {})};
  source.files = std::move(files).names();
  return source;
}

}  // namespace lockstep
