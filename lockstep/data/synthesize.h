// Synthetic data sets in the exact file layout of real ones, for tests without these: learnable pictures, and clicks in
// Criteo's format, whose best possible AUC is known.
#pragma once

#include <lockstep/data/pictures.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace lockstep::data {

/// Writes both splits of `name` ("cifar10": five train files, one test file and batches.meta.txt; "mnist": four plain
/// idx files) into `out_dir`, which is created if missing, and a SYNTHETIC.txt that describes them.
///
/// Every class is a shape (cifar10: ten shapes of ten overlapping ranges of hue; mnist: the digits) with random
/// position, size, rotation, colours and noise. Picture i of a split depends only on (seed, split, i), so a larger set
/// begins with the smaller one; each block of ten pictures has every class once. The bytes are the same on every
/// machine.
///
/// Each file is written atomically. Error(invalid_argument) for a folder that holds files of the data set but no
/// SYNTHETIC.txt, because they may be the real ones, and for counts out of range (cifar10 needs 5 train records, one
/// per file; at most 10,000,000). Error(io) when writing fails. Two processes must not write to one folder at the same
/// time.
void synthesize(std::string_view name, const std::filesystem::path& out_dir, std::int64_t train_count,
                std::int64_t test_count, std::uint64_t seed);

// The drawing, in synthetic_pictures.cpp.

/// Draws record `index` of class `label`: 3 x 32 x 32 bytes (CHW).
void draw_cifar10(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels);

/// Draws 28 x 28 bytes: a bright digit on black.
void draw_mnist(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels);

// ---- clicks, in synthetic_criteo.cpp

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
