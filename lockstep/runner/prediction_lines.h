// What a model says of samples, as lines of JSON and as CSV.
#pragma once

#include <lockstep/train/task.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::runner {

struct LineOptions {
  std::vector<std::string> classes;  ///< names of classes, by number; empty: none
  bool names_all = false;            ///< there must be a name for each class
  std::int64_t top = 0;              ///< so many of the most probable classes; 0: only the most probable one
};

/// A JSON object in a line for each sample: `index`; what it is known as; `class`, `class_name`, `probability` and
/// other numbers that are predicted of it, `top`, lists of up to 16 numbers (not logits), texts; or `left_out`, why it
/// has none of these. Bytes that are not UTF-8 are replaced. Error(invalid_argument) for `top` without logits of
/// classes, and for more names than classes, or other numbers of them where names_all.
std::string json_lines_of(const train::Prediction& all, const LineOptions& options);

/// The same as a table with a header: a list has columns NAME_1, NAME_2, ..., and the N-th of `top` has top_N,
/// top_N_name and top_N_probability. Cells with separators or line breaks are in quotes. Text stays byte for byte.
std::string csv_of(const train::Prediction& all, const LineOptions& options);

}  // namespace lockstep::runner
