// Parsers of integers, numbers, truth values and byte counts (K, M, G, T), over std::from_chars; trimmed().
#include <lockstep/base/text.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace lockstep {
namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

int shift_of_unit(char unit) {
  switch (unit) {
    case 'K': return 10;
    case 'M': return 20;
    case 'G': return 30;
    case 'T': return 40;
    default: return 0;
  }
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) { return parse_whole<std::int64_t>(text); }

std::optional<double> parse_number(std::string_view text) {
  const auto value = parse_whole<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  constexpr std::array<std::string_view, 10> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                      "YES",  "on",   "On",   "ON",  "1"};
  constexpr std::array<std::string_view, 10> kFalse = {"false", "False", "FALSE", "no",  "No",
                                                       "NO",    "off",   "Off",   "OFF", "0"};
  for (const auto word : kTrue) {
    if (text == word) return true;
  }
  for (const auto word : kFalse) {
    if (text == word) return false;
  }
  return std::nullopt;
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const int shift = shift_of_unit(text.back());
  if (shift > 0) text.remove_suffix(1);
  const auto count = parse_integer(text);
  if (!count || text.front() == '-' || *count > (std::numeric_limits<std::int64_t>::max() >> shift))
    return std::nullopt;
  return *count << shift;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

}  // namespace lockstep
