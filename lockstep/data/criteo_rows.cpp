// The vocabulary of frequent Criteo categories, sorted by column and cached on disk; the alternative: rows by hash.
#include <lockstep/data/criteo_rows.h>
#include <lockstep/data/exact_math.h>
#include <lockstep/data/files/bad_items.h>
#include <lockstep/data/random.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace lockstep::data {
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

}  // namespace lockstep::data
