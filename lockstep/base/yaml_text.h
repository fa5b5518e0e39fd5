// Conversion between YAML text and ConfigNode, beside parse_yaml() and print_yaml() of base/config.h; and, for their
// source, the tree of a document, built while yaml-cpp reads it, and the lines of its text.
#pragma once

#include <lockstep/base/config.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// YAML in one line, e.g. "[64, 64]".
std::string print_yaml_flow(const ConfigNode& node);

inline constexpr int kDeepestYaml = 50;

/// The document of a text, as parse_yaml() (config.h) describes it; YAML::Exception where the text is not YAML.
ConfigNode read_yaml_tree(std::string_view text, const std::string& file);

/// The lines of a text, counted from 0.
class TextLines {
 public:
  explicit TextLines(std::string_view text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') begins_.push_back(i + 1);
    }
  }

  /// The text from this line and column on; empty where the text has no such place.
  std::string_view from(int line, int column = 0) const {
    if (line < 0 || static_cast<std::size_t>(line) >= begins_.size()) return {};
    const auto begin = begins_[static_cast<std::size_t>(line)] + static_cast<std::size_t>(column);
    return begin < text_.size() ? text_.substr(begin) : std::string_view();
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> begins_ = {0};
};

}  // namespace lockstep
