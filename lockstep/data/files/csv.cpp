// A CSV parser that consumes its text cell by cell and resumes after a bad row; also plain iteration over lines.
#include <lockstep/base/error.h>
#include <lockstep/data/files/csv.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/mapped_file.h>

#include <algorithm>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view without_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
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

}  // namespace lockstep::data
