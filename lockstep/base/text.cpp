// Texts from outside: scalars read strictly, over std::from_chars; texts cut at character boundaries of UTF-8; file
// types by their first bytes; and HOST:PORT with brackets for IPv6.
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

namespace lockstep {

using namespace std::string_view_literals;

namespace {

/// Terminals also interpret C1 controls, and direction marks display a text in another order than it is stored.
bool prints(char32_t code) {
  const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool is_mark = (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
                       (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
  return !is_control && !is_mark;
}

std::string escaped(std::string_view text, bool keeps_lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    const auto taken = text.substr(0, std::max<std::size_t>(bytes, 1));
    text.remove_prefix(taken.size());
    if (bytes > 0 && (prints(code) || (keeps_lines && (code == '\n' || code == '\t')))) {
      out += taken;
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (bytes > 1) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(taken.front()));
    }
  }
  return out;
}

/// The largest length of at most `most` bytes that splits no character.
std::size_t end_of_characters(std::string_view text, std::size_t most) {
  std::size_t end = most;
  const auto inside_a_character = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; };
  for (int i = 0; i < 3 && end > 0 && inside_a_character(); ++i) --end;
  return end;
}

constexpr std::size_t kLongestLine = 3000;

/// Does the same for printable text.
std::string without_middle(std::string_view line) {
  constexpr std::size_t kBeginning = 1500, kEnd = 1000;
  if (line.size() <= kLongestLine) return std::string(line);
  const auto begin = end_of_characters(line, kBeginning);
  const auto rest = end_of_characters(line, line.size() - kEnd);
  return fmt::format("{} ... ({} bytes left out) ... {}", line.substr(0, begin), rest - begin, line.substr(rest));
}

}  // namespace

std::string cut_text(std::string_view text, std::size_t most) {
  if (text.size() <= most) return escaped(text, false);
  return fmt::format("{}... ({} bytes)", escaped(text.substr(0, end_of_characters(text, most)), false), text.size());
}

std::string shown_message(std::string_view message) {
  const auto printable = escaped(message, true);
  if (printable.size() <= kLongestLine) return printable;
  std::string out;
  for (std::size_t begin = 0;;) {
    const auto end = std::min(printable.find('\n', begin), printable.size());
    out += without_middle(std::string_view(printable).substr(begin, end - begin));
    if (end == printable.size()) return out;
    out += '\n';
    begin = end + 1;
  }
}

std::string_view kind_of_file(std::string_view begin) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kKinds = {{
      {"PK\x03\x04"sv, "a zip archive"},
      {"\x1f\x8b"sv, "a gzip file"},
      {"%PDF-"sv, "a PDF document"},
      {"\x7f"
       "ELF"sv,
       "an ELF program"},
      {"\x80\x02"sv, "a Python pickle"},
      {"\x80\x03"sv, "a Python pickle"},
      {"\x80\x04"sv, "a Python pickle"},
      {"\x80\x05"sv, "a Python pickle"},
      {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
      {"\x89PNG"sv, "a PNG picture"},
      {"\xff\xd8\xff"sv, "a JPEG picture"},
      {"GGUF"sv, "a GGUF file"},
  }};
  for (const auto& [magic, kind] : kKinds) {
    if (begin.starts_with(magic)) return kind;
  }
  return {};
}

std::string host_and_port(std::string_view host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string_view::npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::optional<HostPort> parse_host_and_port(std::string_view text) {
  const bool brackets = text.starts_with('[');
  const auto close = brackets ? text.find(']') : 0;
  if (close == std::string_view::npos) return std::nullopt;
  const bool bare_v6 = !brackets && text.find(':') != text.rfind(':');
  const auto colon = bare_v6 ? std::string_view::npos : text.find(':', close);
  HostPort read{std::string(text.substr(0, colon)), std::nullopt};
  if (brackets) {
    if (close + 1 != read.host.size()) return std::nullopt;
    read.host = text.substr(1, close - 1);
  }
  if (read.host.empty() || read.host.find_first_of("[]/ \t") != std::string::npos) return std::nullopt;
  if (colon == std::string_view::npos) return read;
  const auto port = parse_integer(text.substr(colon + 1));
  if (!port || *port < 0 || *port > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  read.port = static_cast<std::uint16_t>(*port);
  return read;
}

std::optional<HostPort> parse_listening_address(std::string_view text) {
  const bool is_port = text.find(':') == std::string_view::npos;
  auto read = parse_host_and_port(is_port ? fmt::format("127.0.0.1:{}", text) : std::string(text));
  return read && read->port ? read : std::nullopt;
}

std::string names_of_ranks(const std::vector<int>& ranks) {
  constexpr std::ptrdiff_t kNamed = 8;
  const std::vector<int> named(ranks.begin(), ranks.begin() + std::min(std::ssize(ranks), kNamed));
  const auto rest = ranks.size() - named.size();
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(named, ", "),
                     rest == 0 ? "" : fmt::format(" and {} more", rest));
}

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
