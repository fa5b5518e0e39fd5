// The text of c10d's exceptions.
#pragma once

#include <algorithm>
#include <exception>
#include <string>

namespace lockstep::detail {

/// The first line of c10d's message, which says what happened; a C++ backtrace follows it.
inline std::string first_line(const std::exception& error) {
  std::string text = error.what();
  text.resize(std::min(text.size(), text.find('\n')));
  while (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace lockstep::detail
