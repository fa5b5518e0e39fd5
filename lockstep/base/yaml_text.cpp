// YAML text to ConfigNode and back through yaml-cpp, with yaml-cpp's errors reworded for users.
#include <lockstep/base/shown_text.h>
#include <lockstep/base/yaml_text.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {
namespace {

bool indented_with_tab(std::string_view text) {
  const auto indentation = text.substr(0, text.find_first_not_of(" \t"));
  return indentation.find('\t') != std::string_view::npos;
}

// Rewords messages of yaml-cpp, which are meant for authors of parsers, for users.
std::string explain(const std::string& message) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kExplanations = {{
      {"illegal map value",
       "a ': ' where no key is allowed; check the indentation of this line and the one above, or quote a text with ': "
       "'"},
      {"end of map not found", "this line is not indented like the lines that it belongs to"},
      {"end of sequence not found", "this line is not indented like the lines that it belongs to"},
      {"end of sequence flow not found", "a '[' is not closed with ']'"},
      {"end of map flow not found", "a '{' is not closed with '}'"},
      {"illegal EOF in scalar", "a quote is never closed"},
      {"illegal block entry", "a '- ' where no list item is allowed; put the list on lines of its own"},
      {"unknown token", "a text may not begin with this character; put it in quotes"},
  }};
  if (message == "bad file") {  // yaml-cpp's message for its own limit, which is above ours
    return fmt::format("nested more than {} deep here; is a '[', '{{' or '-' repeated?", kDeepestYaml);
  }
  for (const auto& [words, explanation] : kExplanations) {
    if (message == words) return std::string(explanation);
  }
  return message;
}

[[noreturn]] void fail_at(const std::string& file, int line, const std::string& message) {
  throw Error(ErrorKind::config, "config", message, {file, line});
}

[[noreturn]] void fail_to_parse(std::string_view text, const std::string& file, const YAML::Exception& error) {
  const int line = error.mark.is_null() ? -1 : error.mark.line;
  const TextLines lines(text);
  for (int near = line; near >= 0 && near >= line - 1; --near) {
    if (indented_with_tab(lines.from(near))) {
      fail_at(file, near + 1, "tabs are not allowed for indentation; use spaces");
    }
  }
  fail_at(file, line + 1, "not valid YAML: " + explain(error.msg));
}

// Error(config) for binary files, because yaml-cpp's messages about them would be misleading.
void require_text(std::string_view text, const std::string& file) {
  if (const auto kind = kind_of_file(text); !kind.empty()) {
    fail_at(file, 0, fmt::format("this is {}, not the text of a YAML file", kind));
  }
  const bool utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");  // yaml-cpp can read UTF-16
  if (utf16) return;
  const auto is_control = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
  };
  const auto* const bad = std::ranges::find_if(text, is_control);
  if (bad == text.end()) return;
  const auto line = static_cast<int>(std::count(text.begin(), bad, '\n')) + 1;
  fail_at(file, line,
          fmt::format("byte {} of the file is 0x{:02x}{}, which does not occur in text: is this a YAML file?",
                      bad - text.begin() + 1, static_cast<unsigned char>(*bad), *bad == '\0' ? " (NUL)" : ""));
}

void emit(YAML::Emitter& out, const ConfigNode& node);

void emit_list(YAML::Emitter& out, const ConfigNode& node) {
  const bool plain = std::all_of(node.items.begin(), node.items.end(), [](const ConfigNode& item) {
    return item.kind == ConfigNode::Kind::scalar || item.kind == ConfigNode::Kind::null;
  });
  if (plain) out << YAML::Flow;
  out << YAML::BeginSeq;
  for (const auto& item : node.items) emit(out, item);
  out << YAML::EndSeq;
}

void emit(YAML::Emitter& out, const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null: out << YAML::Null; break;
    case ConfigNode::Kind::scalar:
      if (node.quoted) out << YAML::DoubleQuoted;
      out << node.scalar;
      break;
    case ConfigNode::Kind::list: emit_list(out, node); break;
    case ConfigNode::Kind::map:
      if (node.entries.empty()) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const auto& entry : node.entries) {
        out << YAML::Key << entry.key << YAML::Value;
        emit(out, entry.value);
      }
      out << YAML::EndMap;
      break;
  }
}

}  // namespace

ConfigNode parse_yaml(std::string_view text, const std::string& file) {
  require_text(text, file);
  try {
    return read_yaml_tree(text, file);
  } catch (const YAML::Exception& error) {
    fail_to_parse(text, file, error);
  }
}

std::string print_yaml(const ConfigNode& node) {
  YAML::Emitter out;
  emit(out, node);
  return std::string(out.c_str()) + "\n";
}

std::string print_yaml_flow(const ConfigNode& node) {
  YAML::Emitter out;
  out.SetSeqFormat(YAML::Flow);
  out.SetMapFormat(YAML::Flow);
  emit(out, node);
  return out.c_str();
}

}  // namespace lockstep
