// The predictions of a model for samples, as lines of JSON and as CSV.
#pragma once

#include <lockstep/train/task.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::runner {

struct LineOptions {
  std::vector<std::string> classes;  ///< names of classes, by number; empty: none
  bool names_all = false;            ///< each class must have a name
  std::int64_t top = 0;              ///< the number of most probable classes to list; 0: only the most probable one
};

/// One line per sample with a JSON object: `index`; the name of the sample; `class`, `class_name`, `probability` and
/// other predicted numbers, `top`, lists of up to 16 numbers (not logits), texts; or `left_out`, the reason why the
/// sample has no predictions. Bytes that are not UTF-8 are replaced. Error(invalid_argument) for `top` without logits
/// of classes, and for more names than classes; with names_all, also for fewer.
std::string json_lines_of(const train::Prediction& all, const LineOptions& options);

/// The same as a table with a header: a list has columns NAME_1, NAME_2, ..., and the N-th of `top` has top_N,
/// top_N_name and top_N_probability. Cells with separators or line breaks are in quotes. Text is not changed.
std::string csv_of(const train::Prediction& all, const LineOptions& options);

}  // namespace lockstep::runner
