// The reading visitor, which takes values from a node and reports unknown keys; the checking visitor of values that a
// program has set; and one of fields that are paths, which replaces ~/ at their beginning by HOME.
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/base/config_values.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <functional>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace {

using detail::ConfigMistake;

constexpr std::size_t kMostShown = 10;  // further mistakes are only counted

// A key with the name of its section in front.
std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// Overrides (line 0) follow the file, as on the command line.
int place_in_file(const FilePosition& position) { return position.line > 0 ? position.line : INT_MAX; }

std::string place_of(const FilePosition& position) {
  return position.line > 0 ? fmt::format("{}:{}", position.file, position.line) : position.file;
}

ConfigMistake missing_key(const std::string& path, std::string_view doc, const FilePosition& position) {
  return {
      .position = position, .text = fmt::format("{} is missing; it must be given: {}", path, doc), .is_missing = true};
}

class Reader final : public ConfigFields {
 public:
  Reader(const ConfigNode& node, std::string_view path, const ForeignWords& words) : words_(words) {
    sections_.push_back({std::string(path), nullptr, node.position, {}});
    if (node.kind == ConfigNode::Kind::map) {
      sections_.back().node = &node;
    } else if (node.kind != ConfigNode::Kind::null) {
      add_wrong_section(std::string(path), node);
    }
  }

  std::vector<ConfigMistake> finish() && {
    leave();
    for (const UnknownKey& unknown : unknown_) mistakes_.push_back({unknown.position, describe(unknown)});
    return std::move(mistakes_);
  }

  Purpose purpose() const override { return Purpose::reading; }

  void refuse(std::string_view key, std::string_view reason) override {
    const Section& section = sections_.back();
    const ConfigNode* node = section.node != nullptr ? section.node->find(key) : nullptr;
    mistakes_.push_back(
        {node != nullptr ? node->position : section.position, fmt::format("{} {}", join(section.path, key), reason)});
  }

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view doc) override {
    const ConfigNode* node = take(key);
    const std::string path = join(sections_.back().path, key);
    known_.push_back(path);
    if (node != nullptr && rule.hidden && node->position.line == 0) {
      mistakes_.push_back(
          {FilePosition(), fmt::format("{} must not be given on the command line, which all users of this machine can "
                                       "see; put it into a file of your own",
                                       path)});
    } else if (node != nullptr) {
      const auto before = mistakes_.size();
      detail::read_value(*node, path, target, rule, words_, mistakes_);
      if (mistakes_.size() > before && is_name(key)) sections_.back().has_wrong_name = true;
    } else if (rule.required) {
      mistakes_.push_back(missing_key(path, doc, sections_.back().position));
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
    // Which keys a section has depends on the part that it names: without that, they cannot be checked.
    if (section.node == nullptr || section.has_wrong_name) return;
    std::vector<const ConfigNode::Entry*> unknown;
    for (const auto& entry : section.node->entries) {
      if (std::ranges::find(section.keys, entry.key) == section.keys.end()) unknown.push_back(&entry);
    }
    std::ranges::stable_sort(unknown, {}, [](const auto* entry) { return place_in_file(entry->value.position); });
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      const FilePosition& position = unknown[i]->value.position;
      if (i < kMostShown) {
        unknown_.push_back({position, section.path, unknown[i]->key, section.keys, name_elsewhere(section, position)});
      } else {
        mistakes_.push_back({position, ""});  // counted only; sorted after those that are shown
      }
    }
  }

 private:
  struct Section {
    std::string path;
    const ConfigNode* node;  ///< null when the section is absent
    FilePosition position;
    std::vector<std::string> keys;  ///< all requested keys
    bool has_wrong_name = false;    ///< the part that it names does not exist
  };

  // The key of a section that names its part.
  static bool is_name(std::string_view key) { return key == "name" || key == "type"; }

  // Suggestions for unknown keys need the keys of all sections, so they are made at the end.
  struct UnknownKey {
    FilePosition position;
    std::string section;
    std::string key;
    std::vector<std::string> keys;  ///< the section's keys
    std::string named_elsewhere;    ///< the part that the section names, and where, if a later file names it
  };

  // A file that builds on another, or the command line, may name another part, which does not have the keys of the
  // earlier one. A section has the position in the last file that gives it.
  static std::string name_elsewhere(const Section& section, const FilePosition& position) {
    constexpr const char* kName = "name";
    const auto* name = section.node->find(kName);
    const bool is_named = !section.path.empty() && name != nullptr && name->kind == ConfigNode::Kind::scalar;
    if (!is_named || position.line == 0 || name->position.file == position.file) return {};
    if (name->position.line > 0 && name->position.file != section.node->position.file) return {};
    return fmt::format("{} is {} by {}", join(section.path, kName), cut_text(name->scalar), place_of(name->position));
  }

  std::string describe(const UnknownKey& unknown) const {
    return fmt::format("there is no key '{}'{} (keys {}: {})", cut_text(join(unknown.section, unknown.key)),
                       meant_by(unknown), unknown.section.empty() ? "at the top" : "of " + unknown.section,
                       fmt::join(unknown.keys, ", "));
  }

  // "; did you mean ...?", or an empty text.
  std::string meant_by(const UnknownKey& unknown) const {
    if (!unknown.named_elsewhere.empty()) {
      return fmt::format("; {}, and this line is for another one: use a base file that has no section {}",
                         unknown.named_elsewhere, unknown.section);
    }
    const std::string path = join(unknown.section, unknown.key);
    for (const std::string_view name : {std::string_view(path), std::string_view(unknown.key)}) {
      if (auto instead = here_instead_of(name, known_, words_); !instead.empty()) return instead;
    }
    std::vector<std::string> elsewhere;
    for (const auto& known : known_) {
      if (known.ends_with("." + unknown.key)) elsewhere.push_back(fmt::format("'{}'", known));
    }
    if (elsewhere.size() == 1) return fmt::format("; did you mean {}?", elsewhere.front());
    return did_you_mean(unknown.key, unknown.keys);
  }

  const ConfigNode* take(std::string_view key) {
    Section& section = sections_.back();
    section.keys.emplace_back(key);
    return section.node != nullptr ? section.node->find(key) : nullptr;
  }

  void add_wrong_section(const std::string& path, const ConfigNode& node) {
    mistakes_.push_back({node.position, fmt::format("{}: expected a section with 'key: value' lines, found {}", path,
                                                    describe_found(node))});
  }

  ForeignWords words_;
  std::vector<Section> sections_;
  std::vector<std::string> known_;  ///< all keys, prefixed with their sections
  std::vector<UnknownKey> unknown_;
  std::vector<ConfigMistake> mistakes_;
};

// Visits the values as they are. Passwords may have any value.
class Checker final : public ConfigFields {
 public:
  std::vector<ConfigMistake> mistakes() && { return std::move(mistakes_); }

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view doc) override {
    if (rule.hidden) return;
    const auto path = join(path_, key);
    if (!seen_.insert(path).second) {
      mistakes_.push_back(
          {.position = FilePosition(),
           .text = fmt::format("{} is a key of its section and an option of the part that the section names; give the "
                               "option another name",
                               path)});
    }
    const auto value = detail::to_node(target);
    if (rule.required && is_empty(value)) {
      mistakes_.push_back(missing_key(path, doc, FilePosition()));
    } else {
      detail::read_value(value, path, target, rule, {}, mistakes_);
    }
  }

  bool enter(std::string_view key, std::string_view /*doc*/) override {
    path_ = join(path_, key);
    return true;
  }

  bool enter_optional(std::string_view key, bool present, std::string_view doc) override {
    return present && enter(key, doc);
  }

  void leave() override {
    const auto dot = path_.rfind('.');
    path_.erase(dot == std::string::npos ? 0 : dot);
  }

 private:
  /// An empty text, or the number 0.
  static bool is_empty(const ConfigNode& value) {
    return value.kind == ConfigNode::Kind::scalar && (value.scalar.empty() || (value.scalar == "0" && !value.quoted));
  }

  std::string path_;
  std::set<std::string> seen_;
  std::vector<ConfigMistake> mistakes_;
};

[[noreturn]] void fail_with(std::vector<ConfigMistake> mistakes) {
  // Mistakes without text are sorted after the others of their line.
  std::ranges::stable_sort(mistakes, {}, [](const ConfigMistake& each) {
    return std::tuple(each.is_missing, place_in_file(each.position), each.text.empty());
  });
  const FilePosition first = mistakes.front().position;
  if (mistakes.size() == 1) throw Error(ErrorKind::config, "config", mistakes.front().text, first);
  std::string text = fmt::format("{} mistakes:", mistakes.size());
  for (std::size_t i = 0; i < std::min(mistakes.size(), kMostShown); ++i) {
    const auto place = place_of(mistakes[i].position);
    text += fmt::format("\n  {}{}{}", place, place.empty() ? "" : ": ", mistakes[i].text);
  }
  if (mistakes.size() > kMostShown) text += fmt::format("\n  and {} more", mistakes.size() - kMostShown);
  text += "\nstart with the first";
  throw Error(ErrorKind::config, "config", text, first);
}

}  // namespace

void read_fields(const ConfigNode& node, std::string_view path, const Describe& describe) {
  read_fields(node, path, ForeignWords{}, describe);
}

void read_fields(const ConfigNode& node, std::string_view path, const ForeignWords& words, const Describe& describe) {
  if (node.looked_at) *node.looked_at = true;
  Reader reader(node, path, words);
  describe(reader);
  auto mistakes = std::move(reader).finish();
  if (!mistakes.empty()) fail_with(std::move(mistakes));
}

void check_fields(const Describe& describe) {
  Checker checker;
  describe(checker);
  auto mistakes = std::move(checker).mistakes();
  if (!mistakes.empty()) fail_with(std::move(mistakes));
}

namespace {

/// Calls a function for each field that is a path.
class PathFields final : public ConfigFields {
 public:
  using OnPath = std::function<void(const std::string& key, const ConfigTarget& target)>;
  explicit PathFields(OnPath found) : found_(std::move(found)) {}

 protected:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& rule, std::string_view) override {
    if (rule.path) found_(section_ + std::string(key), target);
  }
  bool enter(std::string_view key, std::string_view) override {
    lengths_.push_back(section_.size());
    section_ += std::string(key) + ".";
    return true;
  }
  bool enter_optional(std::string_view key, bool present, std::string_view doc) override {
    return present && enter(key, doc);
  }
  void leave() override {
    section_.resize(lengths_.back());
    lengths_.pop_back();
  }

 private:
  OnPath found_;
  std::string section_;
  std::vector<std::size_t> lengths_;
};

void expand_home_in(const ConfigTarget& target) {
  std::visit(
      []([[maybe_unused]] auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          *value = with_home(std::move(*value));
        } else if constexpr (std::is_same_v<Value, std::optional<std::string>>) {
          if (*value) *value = with_home(std::move(**value));
        } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          for (auto& each : *value) each = with_home(std::move(each));
        }
      },
      target);
}

}  // namespace

std::string with_home(std::string path) {
  if (!path.starts_with("~/")) return path;
  const auto home = find(current_environment(), "HOME");
  if (!home) {
    fail(ErrorKind::config, "config", "{} begins with ~, and the variable HOME is not set; write the whole path", path);
  }
  return path.replace(0, 1, *home);
}

void expand_home(const Describe& describe) {
  PathFields paths([](const std::string&, const ConfigTarget& target) { expand_home_in(target); });
  describe(paths);
}

std::vector<std::string> path_keys(const Describe& describe) {
  std::vector<std::string> keys;
  PathFields paths([&](const std::string& key, const ConfigTarget&) { keys.push_back(key); });
  describe(paths);
  return keys;
}

void read_options(const ConfigNode& node, std::string_view path, PartOptions& options, const ForeignWords& words) {
  read_fields(node, path, words, [&](ConfigFields& fields) { options.visit(fields); });
  expand_home([&](ConfigFields& fields) { options.visit(fields); });
}

}  // namespace lockstep
