// A builder of ConfigNode trees from yaml-cpp's events: anchors, merge keys (<<), limits of depth and size.
#include <lockstep/base/yaml_text.h>

#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using Kind = ConfigNode::Kind;

constexpr int kMostNodes = 100000;
constexpr std::size_t kLongestText = 4096;  // the longest path (PATH_MAX); no value is longer

// Keys of the section itself have priority over merged ones ("<<"), and earlier merges over later ones.
void add_missing(std::vector<ConfigNode::Entry>& entries, ConfigNode& map) {
  map.kind = Kind::map;
  if (entries.empty()) return;
  std::unordered_set<std::string> keys;
  for (const auto& entry : map.entries) keys.insert(entry.key);
  for (auto& entry : entries) {
    if (keys.insert(entry.key).second) map.entries.push_back(std::move(entry));
  }
}

// A node with all its contents.
struct Whole {
  ConfigNode node;
  int nodes = 1;
  int height = 0;  // the height of its contents
};

// A list or map that has not ended yet.
struct Open {
  Whole whole;
  YAML::anchor_t anchor = 0;
  bool has_key = false;
  std::string key{};
  int key_line = 0;
  ConfigNode merged{};                           // merged by "<<"
  std::unordered_map<std::string, int> lines{};  // the lines of the keys
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const std::string& file) : lines_(text), file_(file) {}

  ConfigNode take() {
    if (wrong_key_) fail_at(*wrong_key_, "a key must be plain text");
    return root_ ? std::move(*root_) : make_null({file_, 0});
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp reads the comma as an empty document, in an endless loop.
    const bool again = documents_ > 0 && mark.pos == document_begin_;
    document_begin_ = mark.pos;
    if (again || lines_.from(mark.line, mark.column).starts_with(',')) {
      fail_at(mark, "not valid YAML: a text may not begin with ','; put it in quotes");
    }
    ++documents_;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin_node(mark);
    add(leaf(Kind::null, mark), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    begin_node(mark);
    check_length(value, mark);
    auto scalar = leaf(Kind::scalar, mark);
    scalar.node.scalar = value;
    scalar.node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!expects_key()) check_closing_quote(mark);
    add(std::move(scalar), anchor);
  }

  // The value of an alias has the position of the anchor.
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin_node(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail_too_deep(mark);  // the anchor is not complete: the alias is a part of it
    check_size(mark, found->second.nodes, found->second.height);
    add(found->second, 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Kind::list, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Kind::map, mark, anchor);
  }
  void OnMapEnd() override {
    auto& map = open_.back();
    add_missing(map.merged.entries, map.whole.node);
    close();
  }

 private:
  static int line_of(const YAML::Mark& mark) { return mark.is_null() ? 0 : mark.line + 1; }

  [[noreturn]] void fail_at(int line, const std::string& message) const {
    throw Error(ErrorKind::config, "config", message, {file_, line});
  }
  [[noreturn]] void fail_at(const YAML::Mark& mark, const std::string& message) const {
    fail_at(line_of(mark), message);
  }
  [[noreturn]] void fail_too_deep(const YAML::Mark& mark) const {
    fail_at(mark, fmt::format("nested more than {} deep; is a bracket repeated, or does an anchor contain itself?",
                              kDeepestYaml));
  }

  void begin_node(const YAML::Mark& mark) const {
    if (documents_ > 1) {
      fail_at(mark,
              "a second YAML document begins here; a configuration is one document (is the '-' or '---' intended?)");
    }
  }

  Whole leaf(Kind kind, const YAML::Mark& mark) const {
    Whole whole;
    whole.node.kind = kind;
    whole.node.position = {file_, line_of(mark)};
    if (!expects_key()) check_size(mark, 1, 0);
    return whole;
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().whole.node.kind == Kind::map && !open_.back().has_key;
  }

  // Limits depth and size: nested anchors can grow exponentially.
  void check_size(const YAML::Mark& mark, int nodes, int height) const {
    if (static_cast<int>(open_.size()) + height > kDeepestYaml) fail_too_deep(mark);
    int sum = nodes;
    for (const auto& each : open_) sum += each.whole.nodes;
    if (sum > kMostNodes) {
      fail_at(mark, fmt::format("more than {} values once the anchors are resolved", kMostNodes));
    }
  }

  void check_length(const std::string& text, const YAML::Mark& mark) const {
    if (text.size() <= kLongestText) return;
    fail_at(mark, fmt::format("a text may have {} bytes at most, and this one is longer: '{}'", kLongestText,
                              cut_text(text)));
  }

  // yaml-cpp accepts the end of the file as the closing quote, and silently makes the rest of the file a part of the
  // scalar.
  void check_closing_quote(const YAML::Mark& mark) const {
    if (mark.is_null()) return;
    const auto rest = lines_.from(mark.line, mark.column);
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
    fail_at(mark, fmt::format("the quote {} that begins here is never closed", quote));
  }

  void open(Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    begin_node(mark);
    open_.push_back({.whole = leaf(kind, mark), .anchor = anchor});
  }

  void close() {
    auto done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.whole), done.anchor);
  }

  // Adds a complete node.
  void add(Whole whole, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_.insert_or_assign(anchor, whole);
    if (open_.empty()) {
      root_ = std::move(whole.node);
      return;
    }
    auto& parent = open_.back();
    if (expects_key()) {
      begin_entry(parent, whole.node);
      return;
    }
    parent.whole.nodes += whole.nodes;
    parent.whole.height = std::max(parent.whole.height, whole.height + 1);
    if (parent.whole.node.kind == Kind::list) {
      parent.whole.node.items.push_back(std::move(whole.node));
    } else {
      end_entry(parent, std::move(whole.node));
    }
  }

  void begin_entry(Open& map, const ConfigNode& key) {
    // Reported at the end, because yaml-cpp also reads unclosed brackets as keys.
    if (key.kind != Kind::scalar && !wrong_key_) wrong_key_ = key.position.line;
    map.has_key = true;
    map.key = key.scalar;
    map.key_line = key.position.line;
  }

  void end_entry(Open& map, ConfigNode value) const {
    map.has_key = false;
    if (wrong_key_) return;
    if (map.key == "<<") return merge_all(value, map.key_line, map.merged);
    if (const auto [first, is_new] = map.lines.emplace(map.key, map.key_line); !is_new) {
      fail_at(map.key_line, fmt::format("the key '{}' occurs twice in this section, first in line {}; remove one",
                                        cut_text(map.key), first->second));
    }
    value.position.line = map.key_line;
    map.whole.node.entries.push_back({std::move(map.key), std::move(value)});
  }

  void merge_all(ConfigNode& value, int line, ConfigNode& merged) const {
    if (value.kind == Kind::map) {
      add_missing(value.entries, merged);
    } else if (value.kind == Kind::list) {
      for (auto& item : value.items) merge_all(item, line, merged);
    } else {
      fail_at(line, fmt::format("'<<' merges a section, but here is {}", describe_found(value)));
    }
  }

  TextLines lines_;
  const std::string& file_;
  int documents_ = 0;
  int document_begin_ = 0;
  std::optional<ConfigNode> root_;
  std::optional<int> wrong_key_;  // line of the first key that is a list, a section or null
  std::vector<Open> open_;        // the open lists and maps from the root on
  std::unordered_map<YAML::anchor_t, Whole> anchors_;
};

}  // namespace

ConfigNode read_yaml_tree(std::string_view text, const std::string& file) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  TreeBuilder builder(text, file);
  while (parser.HandleNextDocument(builder)) continue;
  return builder.take();
}

}  // namespace lockstep
