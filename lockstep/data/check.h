// The check of a data set's folder, which reports all problems, not only the first.
#pragma once

#include <lockstep/data/format.h>
#include <lockstep/data/pictures.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct SplitSummary {
  Split split = Split::train;
  std::int64_t records = 0;                ///< labels that could be read, valid or not
  std::vector<std::int64_t> class_counts;  ///< one for each class
};

struct CheckReport {
  std::string dataset;
  std::filesystem::path root;
  std::vector<SplitSummary> splits;  ///< train, test
  Problems problems;

  bool ok() const { return problems.empty(); }
};

/// Reads every file of both splits and checks layout, sizes, counts and label range. `name` is a data set's name, or
/// "auto" to recognize it by the names of the files. Problems with the files are in the report. Error(data) when "auto"
/// finds files of several data sets, Error(invalid_argument) when "auto" finds no data set, when `root` is not a
/// folder, and for an unknown name.
CheckReport check_dataset(std::string_view name, const std::filesystem::path& root);

/// The report as several lines of text, without a newline at the end; lists all problems.
std::string to_text(const CheckReport& report);

}  // namespace lockstep::data
