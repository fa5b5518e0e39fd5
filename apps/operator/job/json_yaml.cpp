// JSON values through yaml-cpp's emitter, and a reader of YAML files with several documents.
#include <apps/operator/job/json_yaml.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep::kube {
namespace {

using Json = nlohmann::ordered_json;

/// Whether a text without quotes may be something else for some YAML reader: a number, a date, a word of YAML 1.1, the
/// same text with other ends of lines.
bool needs_quotes(std::string text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !(is_letter(text.front()) || text.front() == '/')) return true;
  if (!std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) return true;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array kWords{"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  return std::ranges::find(kWords, text) != kWords.end();
}

void emit_text(YAML::Emitter& out, const std::string& text) {
  if (needs_quotes(text)) out << YAML::DoubleQuoted;
  out << text;
}

void emit(YAML::Emitter& out, const Json& value) {
  if (value.is_structured() && value.empty()) out << YAML::Flow;
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, item] : value.items()) {
      out << YAML::Key;
      emit_text(out, key);
      out << YAML::Value;
      emit(out, item);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::BeginSeq;
    for (const Json& item : value) emit(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    emit_text(out, value.get<std::string>());
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();
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
  YAML::Emitter out;
  emit(out, value);
  return std::string(out.c_str()) + "\n";
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
