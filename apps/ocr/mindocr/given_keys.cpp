// A configuration tree from which keys are removed as they are converted, and builders of new nodes.
#include <apps/ocr/mindocr/given_keys.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <utility>

namespace lockstep::ocr {
namespace {

using Entries = std::vector<ConfigNode::Entry>;

Entries::iterator find_key(ConfigNode& map, std::string_view key) {
  return std::ranges::find(map.entries, key, &ConfigNode::Entry::key);
}

void collect(const ConfigNode& node, const std::string& path, std::vector<std::string>& left) {
  if (node.kind == ConfigNode::Kind::map) {
    for (const auto& [key, value] : node.entries) collect(value, path.empty() ? key : path + "." + key, left);
  } else if (node.kind != ConfigNode::Kind::null) {
    left.push_back(node.position.line > 0 ? fmt::format("{} (line {})", path, node.position.line) : path);
  }
}

}  // namespace

std::optional<ConfigNode> GivenKeys::take(std::string_view path) {
  ConfigNode* map = &root_;
  for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    const auto found = find_key(*map, path.substr(0, dot));
    if (found == map->entries.end()) return std::nullopt;
    map = &found->value;
    path.remove_prefix(dot + 1);
  }
  const auto found = find_key(*map, path);
  if (found == map->entries.end()) return std::nullopt;
  auto value = std::move(found->value);
  map->entries.erase(found);
  if (value.kind == ConfigNode::Kind::null) return std::nullopt;
  return value;
}

std::string GivenKeys::take_text(std::string_view path) {
  auto copy = *this;
  const auto value = copy.take(path);
  if (value && value->kind != ConfigNode::Kind::scalar) return "";
  *this = std::move(copy);
  return value ? value->scalar : "";
}

void GivenKeys::pass_over(std::string_view section, std::initializer_list<std::string_view> keys) {
  for (const auto key : keys) {
    auto path = section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
    if (take(path)) passed_.push_back(std::move(path));
  }
}

bool GivenKeys::take_if(std::string_view path, std::initializer_list<std::string_view> texts) {
  auto copy = *this;
  const auto value = copy.take(path);
  if (!value) return true;
  const bool equal = std::ranges::any_of(texts, [&](std::string_view text) {
    return std::ranges::equal(text, value->scalar, [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    });
  });
  if (equal) *this = std::move(copy);
  return equal;
}

std::vector<std::string> GivenKeys::left() const {
  std::vector<std::string> left;
  collect(root_, "", left);
  return left;
}

void set_key(ConfigNode& root, std::string_view path, ConfigNode value) {
  ConfigNode* map = &root;
  for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    const auto key = path.substr(0, dot);
    auto found = find_key(*map, key);
    if (found == map->entries.end()) {
      map->entries.push_back({std::string(key), make_section()});
      found = std::prev(map->entries.end());
    }
    map = &found->value;
    path.remove_prefix(dot + 1);
  }
  map->entries.push_back({std::string(path), std::move(value)});
}

ConfigNode text_node(std::string text) { return make_scalar(std::move(text)); }

ConfigNode list_node(std::vector<ConfigNode> items) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::list;
  list.items = std::move(items);
  return list;
}

ConfigNode named_node(const std::string& name, const std::vector<std::pair<std::string, ConfigNode>>& arguments) {
  if (arguments.empty()) return text_node(name);
  auto inner = make_section();
  for (const auto& [key, value] : arguments) inner.entries.push_back({key, value});
  auto node = make_section();
  node.entries.push_back({name, std::move(inner)});
  return node;
}

}  // namespace lockstep::ocr
