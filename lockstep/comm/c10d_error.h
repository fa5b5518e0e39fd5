// What an exception of c10d says.
#pragma once

#include <algorithm>
#include <exception>
#include <string>

namespace lockstep::detail {

/// Its messages carry a C++ backtrace; the first line says what happened.
inline std::string first_line(const std::exception& error) {
  std::string text = error.what();
  text.resize(std::min(text.size(), text.find('\n')));
  while (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace lockstep::detail
