// The lines of a text, counted from 0.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace lockstep {

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
