// Texts that a file may hold and no terminal should get, and the check that an error about them stays readable.
#pragma once

#include <gtest/gtest.h>
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::test {

/// NUL, an escape sequence, bytes that are not UTF-8, and a megabyte.
inline std::array<std::string, 4> hostile_texts() {
  return {std::string("a\0b", 3), "\x1b[2J\x1b]0;title\x07", "\xff\xfe\xc3(", std::string(1 << 20, 'x')};
}

/// Calls `read` with each of those between `before` and `after`. It need not fail; an Error of it is short, has only
/// what prints, and holds all `words`.
inline void expect_readable_errors(std::string_view reader, std::string_view before, std::string_view after,
                                   std::initializer_list<std::string_view> words,
                                   const std::function<void(const std::string& text)>& read) {
  constexpr std::size_t kLongest = 4000;
  for (const auto& hostile : hostile_texts()) {
    const auto text = std::string(before) + hostile + std::string(after);
    SCOPED_TRACE(std::string(reader) + ", size " + std::to_string(text.size()) + ", byte " +
                 std::to_string(static_cast<unsigned char>(hostile.front())));
    try {
      read(text);
    } catch (const Error& error) {
      const std::string_view what = error.what();
      EXPECT_GE(what.size(), error.message().size()) << "it does not end early";
      EXPECT_LT(what.size(), kLongest) << cut_text(what, 300);
      const auto shown = cut_text(what, kLongest);
      EXPECT_EQ(shown_message(what), what) << shown;
      EXPECT_TRUE(std::ranges::none_of(what, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f'; }))
          << shown;
      for (const auto word : words) EXPECT_NE(what.find(word), std::string_view::npos) << word << ": " << shown;
    }
  }
}

}  // namespace lockstep::test
