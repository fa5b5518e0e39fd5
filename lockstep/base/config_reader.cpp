// Reading: the visitor that takes values out of a node and checks that nothing unknown is left there.
#include <lockstep/base/config_fields.h>
#include <lockstep/base/config_values.h>
#include <lockstep/base/nearest.h>

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace lockstep {
namespace {

using detail::ConfigMistake;

// A key with the name of its section in front.
std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

class Reader final : public ConfigFields {
 public:
  Reader(const ConfigNode& node, std::string_view path) {
    sections_.push_back({std::string(path), nullptr, node.position, {}});
    if (node.kind == ConfigNode::Kind::map) {
      sections_.back().node = &node;
    } else if (node.kind != ConfigNode::Kind::null) {
      add_wrong_section(std::string(path), node);
    }
  }

  std::vector<ConfigMistake> finish() && {
    leave();
    return std::move(mistakes_);
  }

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view doc) override {
    const ConfigNode* node = take(key);
    const std::string path = join(sections_.back().path, key);
    if (node != nullptr && rule.hidden && node->position.line == 0) {
      mistakes_.push_back(
          {FilePosition(), fmt::format("{} must not stand on the command line, which all users of this machine can "
                                       "see; put it into a file of yours",
                                       path)});
    } else if (node != nullptr) {
      detail::read_value(*node, path, target, rule, mistakes_);
    } else if (rule.required) {
      mistakes_.push_back({sections_.back().position, fmt::format("{} is missing; it must be given: {}", path, doc)});
    }
  }

  bool enter(std::string_view key, std::string_view /*doc*/) override {
    const ConfigNode* node = take(key);
    const std::string path = join(sections_.back().path, key);
    const FilePosition position = node != nullptr ? node->position : sections_.back().position;
    if (node != nullptr && node->kind != ConfigNode::Kind::map) {
      if (node->kind != ConfigNode::Kind::null) {
        add_wrong_section(path, *node);
        return false;
      }
      node = nullptr;
    }
    sections_.push_back({path, node, position, {}});
    return true;
  }

  bool enter_optional(std::string_view key, bool present, std::string_view doc) override {
    const Section& section = sections_.back();
    const ConfigNode* node = section.node != nullptr ? section.node->find(key) : nullptr;
    const bool wanted = node != nullptr ? node->kind != ConfigNode::Kind::null : present;
    if (wanted) return enter(key, doc);
    take(key);
    return false;
  }

  void leave() override {
    const Section section = std::move(sections_.back());
    sections_.pop_back();
    if (section.node == nullptr) return;
    for (const auto& entry : section.node->entries) {
      if (std::find(section.keys.begin(), section.keys.end(), entry.key) != section.keys.end()) continue;
      mistakes_.push_back(
          {entry.value.position,
           fmt::format("there is no key '{}'{} (keys {}: {})", join(section.path, entry.key),
                       did_you_mean(entry.key, section.keys),
                       section.path.empty() ? "at the top" : "of " + section.path, fmt::join(section.keys, ", "))});
    }
  }

 private:
  struct Section {
    std::string path;
    const ConfigNode* node;  ///< null when the section is absent
    FilePosition position;
    std::vector<std::string> keys;  ///< all that were asked for
  };

  const ConfigNode* take(std::string_view key) {
    Section& section = sections_.back();
    section.keys.emplace_back(key);
    return section.node != nullptr ? section.node->find(key) : nullptr;
  }

  void add_wrong_section(const std::string& path, const ConfigNode& node) {
    mistakes_.push_back({node.position, fmt::format("{}: expected a section with 'key: value' lines, found {}", path,
                                                    describe_found(node))});
  }

  std::vector<Section> sections_;
  std::vector<ConfigMistake> mistakes_;
};

std::string at(const FilePosition& position) {
  return position.line > 0 ? fmt::format("{}:{}", position.file, position.line) : position.file;
}

[[noreturn]] void fail_with(std::vector<ConfigMistake> mistakes) {
  constexpr std::size_t kMost = 10;
  // In the order of the file; overrides (line 0), which come last on the command line, after it.
  std::stable_sort(mistakes.begin(), mistakes.end(), [](const ConfigMistake& a, const ConfigMistake& b) {
    return (a.position.line > 0 ? a.position.line : INT_MAX) < (b.position.line > 0 ? b.position.line : INT_MAX);
  });
  const FilePosition first = mistakes.front().position;
  if (mistakes.size() == 1) throw Error(ErrorKind::config, "config", mistakes.front().text, first);
  std::string text = fmt::format("{} mistakes:", mistakes.size());
  for (std::size_t i = 0; i < std::min(mistakes.size(), kMost); ++i) {
    text += fmt::format("\n  {}: {}", at(mistakes[i].position), mistakes[i].text);
  }
  if (mistakes.size() > kMost) text += fmt::format("\n  and {} more", mistakes.size() - kMost);
  text += "\nstart with the first";
  throw Error(ErrorKind::config, "config", text, first);
}

}  // namespace

void read_fields(const ConfigNode& node, std::string_view path, const Describe& describe) {
  Reader reader(node, path);
  describe(reader);
  auto mistakes = std::move(reader).finish();
  if (!mistakes.empty()) fail_with(std::move(mistakes));
}

}  // namespace lockstep
