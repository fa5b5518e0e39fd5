// The check of a data set's folder, which reports all problems, not only the first.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/problem.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct SplitSummary {
  Split split = Split::train;
  std::int64_t records = 0;                ///< labels that could be read, good or bad
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
/// "auto" to tell it by the names of the files. Whatever is wrong with the files lands in the report; Error(data) when
/// "auto" finds files of several data sets, Error(invalid_argument) when it finds none, when `root` is no folder, and
/// for an unknown name.
CheckReport check_dataset(std::string_view name, const std::filesystem::path& root);

/// Several lines for people, ending without a newline; long lists of problems in full.
std::string to_text(const CheckReport& report);

}  // namespace lockstep::data
