// A check of every sample of a run's data before the run: unusable samples, classes, sizes.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::train {

/// The sizes that a field has.
struct FieldSizes {
  std::string dtype;  ///< "text" for texts, whose size is their bytes
  std::set<std::vector<std::int64_t>> sizes;
  std::int64_t samples = 0;
};

struct CheckedSplit {
  data::Split split = data::Split::train;
  std::int64_t samples = 0;                        ///< samples that could be read
  std::map<std::string, FieldSizes> as_read{};     ///< by field
  std::map<std::string, FieldSizes> as_trained{};  ///< after the transforms; empty: there are no transforms
  std::map<std::int64_t, std::int64_t> labels{};   ///< samples by class
  std::vector<std::string> classes{};              ///< their names
  std::int64_t problem_count = 0;
  std::vector<std::string> problems{};  ///< the first problems, each with its file or sample
};

struct CheckedData {
  std::string name;  ///< data.name
  std::vector<CheckedSplit> splits;

  std::int64_t problem_count() const;
};

/// Reads every sample of both splits in the same way as the run, on several threads. Checks that it can be read and
/// transformed, that the model has its class, that numbers are finite, and that samples can share a batch. Problems are
/// in the result. Error(config) for an unknown data.name.
CheckedData check_data(const ResolvedRun& config);

/// The result as a table, without a newline at the end.
std::string to_text(const CheckedData& checked);

}  // namespace lockstep::train
