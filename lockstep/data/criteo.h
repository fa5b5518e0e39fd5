// Criteo's data of clicks: lines of a label, 13 whole numbers and 26 categories, separated by TAB, the rows of
// embedding tables of each line, and the arithmetic of their weights, which is the same on every machine.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/data/files/prepared_file.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#pragma once

namespace lockstep::data {

inline constexpr std::size_t kCriteoNumbers = 13;
inline constexpr std::size_t kCriteoCategories = 26;
inline constexpr std::size_t kCriteoFields = kCriteoNumbers + kCriteoCategories;
inline constexpr std::string_view kCriteoTrain = "train.txt";
inline constexpr std::string_view kCriteoTest = "test.txt";

/// Categories of each column in the set of Kaggle's competition.
inline constexpr std::array<std::int64_t, kCriteoCategories> kCriteoCardinalities{
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};

struct CriteoRow {
  bool clicked = false;
  std::array<std::optional<std::int64_t>, kCriteoNumbers> numbers{};
  std::array<std::optional<std::uint32_t>, kCriteoCategories> categories{};
};

/// A line without its end. Error(data) at `position`, with the column from 1, for anything but a label 0 or 1, whole
/// numbers (or nothing) and eight hexadecimal digits (or nothing).
CriteoRow parse_criteo_line(std::string_view line, const FilePosition& position);

/// Rows of the table, in this order:
///   0 .. 12    a number of each column: its weight is signed_log of the number
///   13 .. 25   an empty number of each column
///   26 .. 51   an empty category of each column
/// by a vocabulary:
///   52 .. 77   a rare category of each column
///   78 ..      the others, column after column, sorted
/// by a hash:
///   52 ..      hash of column and category
inline constexpr std::int64_t kCriteoFixedRows = 2 * kCriteoNumbers + kCriteoCategories;

/// The categories that occur often enough in a file. Thread-safe.
class CriteoVocabulary {
 public:
  /// The categories that occur at least `min_count` times in their column in the first `rows` lines of `file`. The
  /// first process that needs them counts them and stores them in `cache`. Unusable lines are an error, or left out if
  /// `skips`.
  CriteoVocabulary(const LineFile& file, std::int64_t rows, std::int64_t min_count, bool skips,
                   const std::filesystem::path& cache, std::string_view cache_key);

  /// The number of rows of the table.
  std::int64_t rows() const;
  /// The row of a category.
  std::int64_t row_of(std::size_t column, std::uint32_t category) const;

 private:
  std::span<const std::uint64_t> column(std::size_t column) const;

  PreparedNumbers numbers_;  // the begin of each column, and the end; then the categories
};

/// One line as the model's input.
struct CriteoFieldsOfRow {
  std::array<std::int64_t, kCriteoFields> rows{};
  std::array<float, kCriteoFields> weights{};
};

/// `row_of(column, category)` gives the row of a category.
template <typename RowOf>
CriteoFieldsOfRow fields_of(const CriteoRow& row, const RowOf& row_of);

/// Rows by a hash into a table of `rows` rows, more than kCriteoFixedRows.
std::int64_t hashed_row(std::size_t column, std::uint32_t category, std::int64_t rows);

/// The weight of a number.
float criteo_weight(std::int64_t number);

template <typename RowOf>
CriteoFieldsOfRow fields_of(const CriteoRow& row, const RowOf& row_of) {
  CriteoFieldsOfRow fields;
  for (std::size_t c = 0; c < kCriteoNumbers; ++c) {
    const auto& number = row.numbers[c];
    fields.rows[c] = static_cast<std::int64_t>(number ? c : kCriteoNumbers + c);
    fields.weights[c] = number ? criteo_weight(*number) : 1.0F;
  }
  for (std::size_t c = 0; c < kCriteoCategories; ++c) {
    const auto& category = row.categories[c];
    fields.rows[kCriteoNumbers + c] =
        category ? row_of(c, *category) : static_cast<std::int64_t>(2 * kCriteoNumbers + c);
    fields.weights[kCriteoNumbers + c] = 1.0F;
  }
  return fields;
}

// Logarithm and exponential that use only additions, multiplications and divisions, whose rounding IEEE 754 defines.
// The functions of C libraries differ in the last bit between versions and processors.

/// Natural logarithm of a finite number above 0, with an error of some 1e-15 of the result.
double exact_log(double x);

/// e^x; 0 below -700, and e^700 for x above 700.
double exact_exp(double x);

/// log(1 + x) for x >= 0, and -log(1 - x) below: maps counts of any size to a small range.
double signed_log(double x);

}  // namespace lockstep::data
