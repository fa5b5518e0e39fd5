// A strict parser of Criteo's lines: 40 cells separated by TAB, of which numbers and categories may be empty.
#include <lockstep/base/parse.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/criteo_format.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::data {
namespace {

constexpr std::size_t kColumns = 1 + kCriteoFields;
constexpr std::size_t kHexDigits = 8;

template <typename... Args>
[[noreturn]] void bad_line(const FilePosition& position, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::data, "criteo", fmt::format(format, std::forward<Args>(args)...), position);
}

[[noreturn]] void wrong_number_of_columns(std::string_view line, const FilePosition& position) {
  const auto columns = static_cast<std::size_t>(std::ranges::count(line, '\t')) + 1;
  if (columns == kColumns - 1) {
    bad_line(
        position,
        "the line has {} columns, and needs {}: a label first. Kaggle's test.txt has no labels; evaluate on the end "
        "of train.txt by data.eval_share",
        columns, kColumns);
  }
  bad_line(position, "the line has {} column(s) separated by TAB, and needs {}: a label, {} numbers, {} categories",
           columns, kColumns, kCriteoNumbers, kCriteoCategories);
}

/// The next cell; the rest stays in `line`.
std::string_view take_cell(std::string_view& line) {
  const auto end = std::min(line.find('\t'), line.size());
  const auto cell = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return cell;
}

std::optional<std::uint32_t> parse_hex(std::string_view cell) {
  if (cell.size() != kHexDigits) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : cell) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<std::uint32_t>(digit);
  }
  return value;
}

}  // namespace

CriteoRow parse_criteo_line(std::string_view line, const FilePosition& position) {
  auto rest = line;
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  if (static_cast<std::size_t>(std::ranges::count(rest, '\t')) + 1 != kColumns) wrong_number_of_columns(rest, position);
  CriteoRow row;
  const auto label = take_cell(rest);
  if (label != "0" && label != "1") {
    bad_line(position, "column 1 is the label, 0 or 1, and is '{}'", cut_text(label));
  }
  row.clicked = label == "1";
  for (std::size_t i = 0; i < kCriteoNumbers; ++i) {
    const auto cell = take_cell(rest);
    if (cell.empty()) continue;
    row.numbers[i] = parse_integer(cell);
    if (!row.numbers[i]) {
      bad_line(position, "column {} should be a whole number or empty, and is '{}'", i + 2, cut_text(cell));
    }
  }
  for (std::size_t i = 0; i < kCriteoCategories; ++i) {
    const auto cell = take_cell(rest);
    if (cell.empty()) continue;
    row.categories[i] = parse_hex(cell);
    if (!row.categories[i]) {
      bad_line(position, "column {} should be {} hexadecimal digits or empty, and is '{}'", i + 2 + kCriteoNumbers,
               kHexDigits, cut_text(cell));
    }
  }
  return row;
}

}  // namespace lockstep::data
