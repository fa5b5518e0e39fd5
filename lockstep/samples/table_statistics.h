// The statistics for the features and targets of a table: means, deviations and words of the training rows.
#pragma once

#include <string>
#include <vector>

namespace lockstep::samples {

struct TableOptions;

/// The statistics of a column of numbers.
struct ColumnSpread {
  std::string column;
  double mean = 0;
  double deviation = 1;

  friend bool operator==(const ColumnSpread&, const ColumnSpread&) = default;
};

/// The words of a column, sorted by bytes.
struct ColumnWords {
  std::string column;
  std::vector<std::string> words;

  friend bool operator==(const ColumnWords&, const ColumnWords&) = default;
};

struct TableStatistics {
  std::vector<ColumnSpread> numbers;
  std::vector<ColumnWords> categories;
  std::vector<ColumnSpread> targets;  ///< empty where the target is a category
  std::vector<std::string> classes;   ///< the words of the target
  bool standardizes = true;           ///< numbers
  bool standardizes_targets = false;

  friend bool operator==(const TableStatistics&, const TableStatistics&) = default;
};

/// Exact JSON. Words that are not UTF-8 are {"base64": ...}.
std::string text_of(const TableStatistics& statistics);

/// Error(data) naming `file` for text that text_of() does not write.
TableStatistics table_statistics_in(const std::string& text, const std::string& file);

/// "column area: mean 3 then, 4 now"; empty where they are equal.
std::string difference_between(const TableStatistics& then, const TableStatistics& now);

/// Error(config), naming the key, if options have other columns than the statistics, or scale other columns.
void require_columns_of(const TableStatistics& statistics, const TableOptions& options);

}  // namespace lockstep::samples
