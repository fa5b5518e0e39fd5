// Synthetic clicks in Criteo's format, whose best possible AUC is known.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep::data {

struct CriteoRecipe {
  std::int64_t rows = 100'000;      ///< of training
  std::int64_t test_rows = 20'000;  ///< of evaluation
  double scale = 0.01;              ///< of the cardinalities of Kaggle's columns (criteo.h), at least 3 each
  std::uint64_t seed = 1;
};

struct CriteoTeacher {
  double test_auc = 0;   ///< NaN when the rows have one class only
  double test_rate = 0;  ///< share of clicks
};

inline constexpr double kLargestCriteoScale = 100;

/// Writes train.txt, test.txt, teacher.json and a SYNTHETIC.txt into `out_dir`, which is created if missing.
///
/// Categories of a column follow Zipf's law with the exponent 1.1, behind a bijection of 32 bits; numbers are
/// log-normal, those of the second column also negative; one cell in twenty is empty. A hidden teacher gives each row
/// its probability of a click: the logistic function of a sum of weights, one for each category (drawn from a hash of
/// seed, column and category) and one for the logarithm of each number. A quarter of the rows are clicks. teacher.json
/// has the AUC of these probabilities on both files, which a model can exceed only by chance.
///
/// Row i of a file depends only on (seed, scale, file, i), so a larger set begins with the smaller one. The bytes are
/// the same on every machine.
///
/// Each file is written atomically. Error(invalid_argument) for a folder that holds a train.txt or test.txt but no
/// SYNTHETIC.txt that names criteo, because they may be real ones, and for values out of range. Error(io) when writing
/// fails.
CriteoTeacher synthesize_criteo(const std::filesystem::path& out_dir, const CriteoRecipe& recipe);

}  // namespace lockstep::data
