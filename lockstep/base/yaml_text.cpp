#include <lockstep/base/shown_text.h>
#include <lockstep/base/yaml_text.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace lockstep {
namespace {

constexpr int kDeepest = 50;
constexpr std::size_t kLongestText = 4096;  // the longest path (PATH_MAX); no value is longer

// The lines of a text, counted from 0.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') begins_.push_back(i + 1);
    }
  }

  // The n-th line, and all that follows it.
  std::string_view from(int n) const {
    return n < 0 || static_cast<std::size_t>(n) >= begins_.size() ? std::string_view()
                                                                  : text_.substr(begins_[static_cast<std::size_t>(n)]);
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> begins_ = {0};
};

bool indented_with_tab(std::string_view text) {
  const auto indentation = text.substr(0, text.find_first_not_of(" \t"));
  return indentation.find('\t') != std::string_view::npos;
}

// Rewrites messages of yaml-cpp, which are meant for authors of parsers, for users.
std::string explain(const std::string& message) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kExplanations = {{
      {"illegal map value",
       "a ': ' where no key can stand; check the indentation of this line and the one above, or quote a text with ': "
       "'"},
      {"end of map not found", "this line is not indented like the ones it belongs to"},
      {"end of sequence not found", "this line is not indented like the ones it belongs to"},
      {"end of sequence flow not found", "a '[' is not closed with ']'"},
      {"end of map flow not found", "a '{' is not closed with '}'"},
      {"illegal EOF in scalar", "a quote is never closed"},
      {"illegal block entry", "a '- ' where no list item can stand; put the list on lines of its own"},
      {"unknown token", "a text may not begin with this character; put it in quotes"},
  }};
  if (message == "bad file") {  // yaml-cpp's message for its own limit, which is above ours
    return fmt::format("nested more than {} deep here; is a '[', '{{' or '-' repeated?", kDeepest);
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
  const Lines lines(text);
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
          fmt::format("byte {} of the file is 0x{:02x}{}, which no text has: is this a YAML file?",
                      bad - text.begin() + 1, static_cast<unsigned char>(*bad), *bad == '\0' ? " (NUL)" : ""));
}

// Turns yaml-cpp's nodes into ours.
class Converter {
 public:
  Converter(std::string_view text, const std::string& file) : lines_(text), file_(file) {}

  ConfigNode convert(const YAML::Node& node, int depth = 0) {
    check_size(node, depth);
    ConfigNode result;
    result.position = {file_, line_of(node)};
    if (node.IsScalar()) {
      result.kind = ConfigNode::Kind::scalar;
      result.scalar = node.Scalar();
      check_length(result.scalar, result.position.line);
      result.quoted = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
      check_closing_quote(node);
    } else if (node.IsSequence()) {
      result.kind = ConfigNode::Kind::list;
      for (const auto& item : node) result.items.push_back(convert(item, depth + 1));
    } else if (node.IsMap()) {
      result.kind = ConfigNode::Kind::map;
      fill_map(node, depth, result);
    }
    return result;
  }

 private:
  static int line_of(const YAML::Node& node) { return node.Mark().is_null() ? 0 : node.Mark().line + 1; }

  // Limits depth and size: an anchor that contains itself never ends, and nested anchors can grow exponentially.
  void check_size(const YAML::Node& node, int depth) {
    constexpr int kMostNodes = 100000;
    if (depth > kDeepest) {
      fail_at(
          file_, line_of(node),
          fmt::format("nested more than {} deep; is a bracket repeated, or does an anchor contain itself?", kDeepest));
    }
    if (++nodes_ > kMostNodes) {
      fail_at(file_, line_of(node), fmt::format("more than {} values once the anchors are resolved", kMostNodes));
    }
  }

  void check_length(const std::string& text, int line) const {
    if (text.size() <= kLongestText) return;
    fail_at(file_, line, fmt::format("a text may have {} bytes, and this one is '{}'", kLongestText, cut_text(text)));
  }

  // yaml-cpp accepts the end of the file as the closing quote, and silently makes the rest of the file a part of the
  // scalar.
  void check_closing_quote(const YAML::Node& node) const {
    if (node.Mark().is_null()) return;
    std::string_view rest = lines_.from(node.Mark().line);
    rest.remove_prefix(std::min(rest.size(), static_cast<std::size_t>(node.Mark().column)));
    if (rest.empty() || (rest.front() != '"' && rest.front() != '\'')) return;
    const char quote = rest.front();
    for (std::size_t i = 1; i < rest.size(); ++i) {
      const bool escaped = quote == '"' ? rest[i] == '\\' : rest.substr(i, 2) == "''";
      if (escaped) {
        ++i;
      } else if (rest[i] == quote) {
        return;
      }
    }
    fail_at(file_, line_of(node), fmt::format("the quote {} that begins here is never closed", quote));
  }

  void fill_map(const YAML::Node& node, int depth, ConfigNode& map) {
    ConfigNode merged;
    std::unordered_map<std::string, int> lines;
    for (const auto& pair : node) {
      const int line = line_of(pair.first);
      if (!pair.first.IsScalar()) fail_at(file_, line, "a key must be plain text");
      const std::string& key = pair.first.Scalar();
      check_length(key, line);
      ConfigNode value = convert(pair.second, depth + 1);
      if (key == "<<") {
        merge_all(value, line, merged);
        continue;
      }
      if (const auto [first, is_new] = lines.emplace(key, line); !is_new) {
        fail_at(file_, line,
                fmt::format("the key '{}' stands twice in this section, first in line {}; remove one", cut_text(key),
                            first->second));
      }
      value.position.line = line;
      map.entries.push_back({key, std::move(value)});
    }
    add_missing(merged.entries, map);
  }

  // Keys of the section itself have priority over merged ones ("<<"), and earlier merges over later ones.
  static void add_missing(std::vector<ConfigNode::Entry>& entries, ConfigNode& map) {
    map.kind = ConfigNode::Kind::map;
    if (entries.empty()) return;
    std::unordered_set<std::string> keys;
    for (const auto& entry : map.entries) keys.insert(entry.key);
    for (auto& entry : entries) {
      if (keys.insert(entry.key).second) map.entries.push_back(std::move(entry));
    }
  }

  void merge_all(ConfigNode& value, int line, ConfigNode& merged) const {
    if (value.kind == ConfigNode::Kind::map) {
      add_missing(value.entries, merged);
    } else if (value.kind == ConfigNode::Kind::list) {
      for (auto& item : value.items) merge_all(item, line, merged);
    } else {
      fail_at(file_, line, fmt::format("'<<' merges a section, but {} stands here", describe_found(value)));
    }
  }

  Lines lines_;
  const std::string& file_;
  int nodes_ = 0;
};

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

// The beginnings of a text's documents.
class DocumentStarts final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { marks.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  std::vector<YAML::Mark> marks;
};

// yaml-cpp takes a comma at the beginning of a document for an empty document, again and again without end.
void require_no_comma_first(const std::string& text, const std::string& file) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  while (parser.HandleNextDocument(starts)) {
    const auto& marks = starts.marks;
    if (marks.size() < 2 || marks.back().pos != marks[marks.size() - 2].pos) continue;
    fail_at(file, marks.back().line + 1, "not valid YAML: a text may not begin with ','; put it in quotes");
  }
}

}  // namespace

ConfigNode parse_yaml(std::string_view text, const std::string& file) {
  require_text(text, file);
  std::vector<YAML::Node> documents;
  try {
    require_no_comma_first(std::string(text), file);
    documents = YAML::LoadAll(std::string(text));
  } catch (const YAML::Exception& error) {
    fail_to_parse(text, file, error);
  }
  if (documents.empty()) return make_null({file, 0});
  if (documents.size() > 1) {
    fail_at(file, documents[1].Mark().is_null() ? 0 : documents[1].Mark().line + 1,
            "a second YAML document begins here; a configuration is one document (is the '-' or '---' meant so?)");
  }
  return Converter(text, file).convert(documents.front());
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
