// A translation of nlohmann::json's exceptions, by their numbers, into messages for users.
#include <lockstep/base/json_words.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

std::string_view after(std::string_view text, std::string_view mark) {
  const auto found = text.find(mark);
  return found == std::string_view::npos ? text : text.substr(found + mark.size());
}

std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const auto rest = after(text, begin);
  return rest.substr(0, rest.find(end));
}

// The name of a JSON type in messages.
std::string_view in_words(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTypes = {{{"array", "a list"},
                                                                                    {"object", "an object {...}"},
                                                                                    {"string", "a text"},
                                                                                    {"number", "a number"},
                                                                                    {"boolean", "true or false"},
                                                                                    {"null", "null"}}};
  for (const auto& [name, words] : kTypes) {
    if (type == name) return words;
  }
  return type;
}

constexpr std::string_view kPython =
    "; it looks like what Python's str() and print() write: write JSON with json.dumps()";

/// The part of the parser's message that ends with its last input.
bool looks_like_python(std::string_view text) {
  const auto read = after(text, "last read: '");
  const auto token = read.substr(0, read.rfind('\''));
  if (token.ends_with('\'')) return true;
  const bool begins_so = text.find("line 1, column 1:") != std::string_view::npos;  // any word may begin there
  return !begins_so && (token.ends_with('N') || token.ends_with('T') || token.ends_with('F'));
}

}  // namespace

std::string json_mistake(const nlohmann::json::exception& error) {
  constexpr std::size_t kMost = 300;
  const std::string_view text = after(error.what(), "] ");
  switch (error.id) {
    case 101:
      return fmt::format("it is not valid JSON at {}{}", cut_text(after(text, "parse error at "), kMost),
                         looks_like_python(text) ? kPython : "");
    case 302:
    case 303:
      if (text.find("but is ") == std::string_view::npos)
        return fmt::format("a value must be {}", after(text, "must be "));
      return fmt::format("there is {} where {} should be", in_words(after(text, "but is ")),
                         in_words(between(text, "type must be ", ", but")));
    case 304:
    case 305:
    case 306: return fmt::format("there is {} where an object {{...}} should be", in_words(after(text, " with ")));
    case 403: return fmt::format("it has no \"{}\"", cut_text(between(text, "key '", "' not found")));
    default: return cut_text(text, kMost);
  }
}

}  // namespace lockstep
