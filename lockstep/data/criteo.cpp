// A strict parser of Criteo's lines, whose cells may be empty; and the vocabulary of frequent categories, sorted by
// column and cached on disk. The alternative: rows by hash. Log and exp are fixed-length series (artanh, Taylor) after
// range reduction, with the same bits on every machine.
#include <lockstep/base/text.h>
#include <lockstep/data/criteo.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/sampler.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

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

namespace {

using CategoryCounts = std::array<std::unordered_map<std::uint32_t, std::uint32_t>, kCriteoCategories>;

CategoryCounts count_categories(const LineFile& file, std::int64_t rows, bool skips) {
  CategoryCounts counts;
  BadItems bad(skips, "lines of " + file.name());
  for (std::int64_t i = 0; i < rows; ++i) {
    bad.try_to([&] {
      const auto row = parse_criteo_line(file.line(i), {file.name(), static_cast<int>(i + 1)});
      for (std::size_t c = 0; c < kCriteoCategories; ++c) {
        if (row.categories[c]) ++counts[c][*row.categories[c]];
      }
    });
  }
  bad.report(rows);
  return counts;
}

/// A category in the form that CriteoVocabulary stores.
std::vector<std::uint64_t> frequent_categories(const CategoryCounts& counts, std::int64_t min_count) {
  std::vector<std::uint64_t> numbers(kCriteoCategories + 1);
  for (std::size_t c = 0; c < kCriteoCategories; ++c) {
    const auto begin = numbers.size();
    numbers[c] = begin;
    for (const auto& [category, count] : counts[c]) {
      if (count >= min_count) numbers.push_back(category);
    }
    std::sort(numbers.begin() + static_cast<std::ptrdiff_t>(begin), numbers.end());
  }
  numbers[kCriteoCategories] = numbers.size();
  return numbers;
}

}  // namespace

CriteoVocabulary::CriteoVocabulary(const LineFile& file, std::int64_t rows, std::int64_t min_count, bool skips,
                                   const std::filesystem::path& cache, std::string_view cache_key)
    : numbers_(prepare_numbers(
          file.name(),
          cache / fmt::format("{}.vocabulary-{}", std::filesystem::path(file.name()).filename().string(), min_count),
          fmt::format("categories that occur {} times in {} lines", min_count, rows), cache_key,
          [&] { return frequent_categories(count_categories(file, rows, skips), min_count); })) {}

std::span<const std::uint64_t> CriteoVocabulary::column(std::size_t column) const {
  const auto numbers = numbers_.numbers();
  return numbers.subspan(numbers[column], numbers[column + 1] - numbers[column]);
}

std::int64_t CriteoVocabulary::rows() const {
  constexpr std::size_t kHead = kCriteoCategories + 1;
  return kCriteoFixedRows + static_cast<std::int64_t>(kCriteoCategories + numbers_.numbers().size() - kHead);
}

std::int64_t CriteoVocabulary::row_of(std::size_t column, std::uint32_t category) const {
  constexpr std::size_t kHead = kCriteoCategories + 1;
  const auto known = this->column(column);
  const auto found = std::ranges::lower_bound(known, category);
  if (found == known.end() || *found != category) return kCriteoFixedRows + static_cast<std::int64_t>(column);
  const auto place = numbers_.numbers()[column] - kHead + static_cast<std::size_t>(found - known.begin());
  return kCriteoFixedRows + static_cast<std::int64_t>(kCriteoCategories + place);
}

std::int64_t hashed_row(std::size_t column, std::uint32_t category, std::int64_t rows) {
  const auto key = (static_cast<std::uint64_t>(column + 1) << 32) | category;
  const auto places = static_cast<std::uint64_t>(rows - kCriteoFixedRows);
  return kCriteoFixedRows + static_cast<std::int64_t>(mix64(key) % places);
}

float criteo_weight(std::int64_t number) { return static_cast<float>(signed_log(static_cast<double>(number))); }

namespace {

constexpr double kLog2 = 0.693147180559945309417232121458;
constexpr double kRootOfHalf = 0.707106781186547524400844362105;

}  // namespace

double exact_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact: it only splits the bits
  if (mantissa < kRootOfHalf) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 artanh((m - 1) / (m + 1)), with an argument of at most 0.172: 13 terms are enough.
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * t * sum + exponent * kLog2;
}

double exact_exp(double x) {
  if (x < -700) return 0;
  const double bounded = std::min(x, 700.0);
  const double whole = std::floor(bounded / kLog2 + 0.5);
  const double rest = bounded - whole * kLog2;  // at most 0.35: 16 terms are enough
  double sum = 1;
  for (int k = 16; k >= 1; --k) sum = 1 + sum * rest / k;
  return std::ldexp(sum, static_cast<int>(whole));
}

double signed_log(double x) { return x < 0 ? -exact_log(1 - x) : exact_log(1 + x); }

}  // namespace lockstep::data
