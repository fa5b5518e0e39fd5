// A YAML printer for JSON values, and a reader of YAML files with several documents.
#include <lockstep/base/parse.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/operator/job/json_yaml.h>

#include <algorithm>

namespace lockstep::kube {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

bool is_word_for_something_else(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}) {
    if (text == word) return true;
  }
  return false;
}

/// A scalar that every YAML parser reads as the same value.
std::string scalar_text(const Json& value) {
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  const bool begins_well =
      !text.empty() && (kLetters.find(text.front()) != std::string_view::npos || text.front() == '/');
  const bool plain = begins_well && text.back() != ' ' && text.back() != ':' && text.find(": ") == std::string::npos &&
                     text.find(" #") == std::string::npos &&
                     std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return plain && !is_word_for_something_else(text) ? text : value.dump();
}

std::string key_text(const std::string& key) { return scalar_text(Json(key)); }

bool is_block(const Json& value) { return value.is_structured() && !value.empty(); }

void print(const Json& value, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      out.append(margin).append(key_text(key)).append(":");
      if (!is_block(item)) {
        out.append(" ").append(scalar_text(item)).append("\n");
        continue;
      }
      out += "\n";
      print(item, indent + (item.is_array() ? 0 : 2), out);
    }
    return;
  }
  for (const Json& item : value) {
    if (!is_block(item)) {
      out.append(margin).append("- ").append(scalar_text(item)).append("\n");
      continue;
    }
    std::string inner;
    print(item, indent + 2, inner);
    inner[indent] = '-';  // the item begins after it
    out += inner;
  }
}

Json json_of(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null: return nullptr;
    case ConfigNode::Kind::list: {
      Json list = Json::array();
      for (const ConfigNode& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case ConfigNode::Kind::map: {
      Json map = Json::object();
      for (const auto& entry : node.entries) map[entry.key] = json_of(entry.value);
      return map;
    }
    case ConfigNode::Kind::scalar: break;
  }
  if (node.quoted) return node.scalar;
  if (node.scalar == "true" || node.scalar == "false") return node.scalar == "true";
  if (const auto integer = parse_integer(node.scalar)) return *integer;
  if (const auto number = parse_number(node.scalar)) return *number;
  return node.scalar;
}

}  // namespace

std::string print_yaml_of(const Json& value) {
  if (!is_block(value)) return scalar_text(value) + "\n";
  std::string out;
  print(value, 0, out);
  return out;
}

std::vector<Json> parse_yaml_documents(std::string_view text, const std::string& file) {
  std::vector<Json> documents;
  std::string document;
  const auto finish = [&] {
    auto value = json_of(parse_yaml(document, file));
    if (!value.is_null()) documents.push_back(std::move(value));
    // Line numbers of the next document count from the beginning of the file.
    document = std::string(static_cast<std::size_t>(std::count(document.begin(), document.end(), '\n')), '\n');
  };
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line == "---" || line.starts_with("--- ") || line == "---\r") {
      finish();
      document += "\n";
    } else {
      document.append(line).append("\n");
    }
  }
  finish();
  return documents;
}

}  // namespace lockstep::kube
