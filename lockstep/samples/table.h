// CSV files as a data set: columns of numbers and of categories, and columns of targets; and the statistics of the
// training rows: means, deviations and words.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::samples {

/// Fields: `features`, float32 [F]: the numbers in the order of the options, then for each category column one value
/// for each word of its vocabulary, of which one is 1 and the others are 0. `targets`, float32 [T], as they are in the
/// file; or `labels`, int64, where the target is a category. With standardize_targets also `target_mean` and
/// `target_deviation`, float32 [T], the values of the training file: a model learns (targets - target_mean) /
/// target_deviation.
inline constexpr const char* kFeatures = "features";
inline constexpr const char* kTargets = "targets";
inline constexpr const char* kTargetMean = "target_mean";
inline constexpr const char* kTargetDeviation = "target_deviation";

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

struct TableOptions {
  std::string train;
  std::string eval;  ///< empty: no evaluation
  std::string separator = ",";
  std::vector<std::string> columns;  ///< names of the columns of files without a header; empty: the first line has them
  bool trim = true;                  ///< blanks around cells, outside quotes, are left out
  std::string decimal = ".";         ///< what separates the decimals of a number: "." or ","
  std::vector<std::string> missing;  ///< words for a missing value; empty: in numbers ?, NA, null and so on
  std::vector<std::string> numbers;
  std::vector<std::string> categories;
  std::vector<std::string> targets;
  std::string target = "numbers";  ///< numbers, or category: one column, whose words are classes
  bool standardize = true;         ///< numbers: minus the mean of the training data, divided by its standard deviation
  bool standardize_targets = false;  ///< the same for the targets of a regression; predictions have the file's unit
  std::string fill;  ///< for a missing number: empty: an error; mean: the mean of the training data; or a number
  std::string fill_category;      ///< for a missing category; empty: an error
  std::string unknown = "fail";   ///< a category that the training data does not have: fail, or zeros
  std::int64_t folds = 0;         ///< parts of the training file, of which one evaluates; 0: `eval` does
  std::int64_t fold = 0;          ///< which part, from 0
  std::string sampling = "each";  ///< each or balanced (changed_dataset.h)
  std::string on_error = "fail";  ///< fail or skip
  std::vector<std::string> keys;  ///< columns that predictions have beside them (Dataset::known_as)

  /// Not a key: the statistics of the run whose weights are used; nullptr: the statistics of the current training file.
  std::shared_ptr<const TableStatistics> statistics = nullptr;
  /// Not a key: a file for predictions may lack the targets, or have other words for them.
  bool needs_targets = true;
};
void describe(ConfigFields& fields, TableOptions& options);

/// A split, in memory. Vocabularies (sorted by bytes), means and standard deviations are options.statistics, or else
/// those of the rows that are trained on. Without options.needs_targets the test split has no `targets` or `labels`
/// where its file lacks the column; a cell that is not a number is NaN, and an unknown class -1. Columns that no option
/// names are not read. Lines that begin with | and have one cell are comments. nullptr for the test split without a
/// file and without folds. With `folds` a row's part depends only on the number of the row; the sizes of parts differ
/// by at most one row.
///
/// Error(config) for a missing file, a column that the header lacks (with the nearest), and options that contradict
/// each other; Error(data) with file and line for a row with another number of cells, a cell that is not a finite
/// number, is missing, or has a category that training lacks.
std::shared_ptr<const Dataset> load_table(const TableOptions& options, data::Split split);

/// The statistics of the rows that are trained on, without unusable rows, which are not reported here but when the
/// table is loaded. Errors of the columns as load_table().
TableStatistics learn_table(const TableOptions& options);

/// A batch of one sample in the form of load_table(): from options.statistics, if they are given, without reading a
/// file.
Batch table_example(const TableOptions& options);

/// Exact JSON. Words that are not UTF-8 are {"base64": ...}.
std::string text_of(const TableStatistics& statistics);

/// Error(data) naming `file` for text that text_of() does not write.
TableStatistics table_statistics_in(const std::string& text, const std::string& file);

/// "column area: mean 3 then, 4 now"; empty where they are equal.
std::string difference_between(const TableStatistics& then, const TableStatistics& now);

/// Error(config), naming the key, if options have other columns than the statistics, or scale other columns.
void require_columns_of(const TableStatistics& statistics, const TableOptions& options);

}  // namespace lockstep::samples
