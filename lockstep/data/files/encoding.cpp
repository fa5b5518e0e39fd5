// The encoding of a text file, from its byte order mark and its first bytes.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/base/utf8.h>
#include <lockstep/data/files/encoding.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::data {
namespace {

using namespace std::string_view_literals;

/// The iconv name of the text's encoding, from its first bytes; empty: not UTF-16 or UTF-32.
std::string_view wide_encoding(std::string_view text) {
  constexpr std::size_t kLooksAt = 512;
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv)) return "UTF-16";
  const auto begin = text.substr(0, kLooksAt / 2 * 2);
  if (begin.size() < 4) return {};
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] == '\0') ++zeros[i % 2];
  }
  const auto many = begin.size() / 2 * 3 / 4;  // letters of other alphabets have no zero bytes
  if (zeros[1] >= many && zeros[0] == 0) return "UTF-16LE";
  if (zeros[0] >= many && zeros[1] == 0) return "UTF-16BE";
  return {};
}

}  // namespace

void refuse_wide_text(std::string_view text, const std::string& file) {
  const auto encoding = wide_encoding(text);
  if (encoding.empty()) return;
  throw Error(ErrorKind::data, "data",
              fmt::format("the file is text in {}, and UTF-8 is read; convert it: iconv -f {} -t UTF-8 '{}' > NEW",
                          encoding.substr(0, 6), encoding, cut_text(file, 200)),
              {file, 0});
}

std::optional<std::string> why_not_utf8(std::string_view text, const std::string& file) {
  const auto at = first_not_utf8(text);
  if (!at) return std::nullopt;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
  return fmt::format(
      "line {} is not UTF-8 (byte 0x{:02x}); convert the file from the encoding that it has, such as GBK or GB18030 "
      "(Chinese), SHIFT_JIS, EUC-KR, or LATIN1 (western Europe): iconv -f GBK -t UTF-8 '{}' > NEW",
      line, static_cast<unsigned char>(text[*at]), cut_text(file, 200));
}

void check_encoding(std::string_view text, const std::string& file) {
  refuse_wide_text(text, file);
  if (const auto why = why_not_utf8(text, file)) {
    log_warning("{}: {}. Until then its words are compared byte by byte", cut_text(file, 200), *why);
  }
}

}  // namespace lockstep::data
