// Looking at the errors that code throws.
#pragma once

#include <gtest/gtest.h>
#include <lockstep/base/error.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::test {

/// Fails the test for each word that `text` lacks.
inline void expect_words(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const auto word : words) {
    EXPECT_NE(text.find(word), std::string_view::npos) << "'" << word << "' is missing in: " << text;
  }
}

/// Calls `code`, which must throw an Error of `kind` whose text has all `words`; returns it.
template <typename Code>
std::optional<Error> expect_error(ErrorKind kind, std::initializer_list<std::string_view> words, Code&& code) {
  try {
    code();
  } catch (const Error& error) {
    EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
    expect_words(error.what(), words);
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return std::nullopt;
}

/// The text of the Error of `kind` that `action` must throw.
inline std::string message_of(ErrorKind kind, const std::function<void()>& action) {
  const auto error = expect_error(kind, {}, action);
  return error ? error->what() : "";
}

}  // namespace lockstep::test
