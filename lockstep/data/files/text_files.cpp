// A CSV parser that consumes its text cell by cell and resumes after a bad row; plain iteration over lines; and the
// encoding of a text file, from its byte order mark and its first bytes.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/base/utf8.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/text_files.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view without_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

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

CsvReader::CsvReader(std::string_view text, std::string file, char separator, bool trims)
    : rest_(without_mark(text)), file_(std::move(file)), separator_(separator), trims_(trims) {}

// Blanks and tabs that separate cells are not trimmed.
void CsvReader::pass_blanks() {
  if (!trims_) return;
  const auto is_blank = [this](char c) { return (c == ' ' || c == '\t') && c != separator_; };
  while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
}

bool CsvReader::at_line_end() const { return rest_.empty() || rest_.starts_with('\n') || rest_.starts_with("\r\n"); }

void CsvReader::pass_line_end() {
  if (rest_.empty()) return;
  rest_.remove_prefix(rest_.front() == '\r' ? 2 : 1);
  ++line_;
}

void CsvReader::refuse_row(int line, std::string_view why) {
  const auto end = rest_.find('\n');
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end);
  pass_line_end();
  throw Error(ErrorKind::data, "csv", fmt::format("{}", why), {file_, line});
}

std::string CsvReader::plain_cell() {
  std::size_t end = 0;
  while (end < rest_.size() && rest_[end] != separator_ && rest_[end] != '\n') ++end;
  auto cell = rest_.substr(0, end);
  if (end < rest_.size() && rest_[end] == '\n' && cell.ends_with('\r')) cell.remove_suffix(1);
  rest_.remove_prefix(cell.size());
  while (trims_ && (cell.ends_with(' ') || cell.ends_with('\t'))) cell.remove_suffix(1);
  return std::string(cell);
}

std::string CsvReader::quoted_cell(int line) {
  std::string cell;
  rest_.remove_prefix(1);
  for (;;) {
    const auto quote = rest_.find('"');
    if (quote == std::string_view::npos) {
      rest_ = {};
      refuse_row(line, "a quote that begins in this row is not closed");
    }
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(quote), '\n'));
    cell += rest_.substr(0, quote);
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) return cell;
    cell += '"';
    rest_.remove_prefix(1);
  }
}

std::optional<CsvRow> CsvReader::next() {
  pass_blanks();
  while (!rest_.empty() && at_line_end()) {
    pass_line_end();
    pass_blanks();
  }
  if (rest_.empty()) return std::nullopt;
  CsvRow row{line_, {}};
  for (;;) {
    pass_blanks();
    row.cells.push_back(rest_.starts_with('"') ? quoted_cell(row.line) : plain_cell());
    pass_blanks();
    if (at_line_end()) break;
    if (rest_.front() != separator_) refuse_row(row.line, "a closing quote is followed by other text in its cell");
    rest_.remove_prefix(1);
  }
  pass_line_end();
  return row;
}

void for_each_line(std::string_view text, const std::function<void(std::string_view line, int number)>& line) {
  auto rest = without_mark(text);
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    auto found = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (found.ends_with('\r')) found.remove_suffix(1);
    if (!found.empty()) line(found, number);
  }
}

void for_each_line(const std::filesystem::path& file, std::string_view key,
                   const std::function<void(std::string_view line, int number)>& line) {
  const MappedFile mapped(file, key);
  for_each_line({reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()}, line);
}

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
