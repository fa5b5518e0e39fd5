// Synthetic data sets: learnable pictures in the exact file layout of a data set, for trials without the real one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::data {

/// Writes both splits of `name` ("cifar10": five train files, one test file and batches.meta.txt; "mnist": four plain
/// idx files) into `out_dir`, which is made if need be, and a SYNTHETIC.txt that says what they are.
///
/// Every class is a shape (cifar10: ten shapes of ten overlapping ranges of hue; mnist: the digits) at a random place,
/// size and turn, with random colours and noise. Picture i of a split depends on (seed, split, i) alone, so a larger
/// set begins with the smaller one; each ten pictures in a row hold every class once. The bytes are the same on every
/// machine.
///
/// Each file appears whole or not at all. A folder that holds files of the data set but no SYNTHETIC.txt is left
/// untouched: Error(invalid_argument), since they may be the real ones; so are counts out of range (cifar10 needs 5
/// train records, one a file; at most 10,000,000). Error(io) when writing fails. Not for two processes on one folder at
/// once.
void synthesize(std::string_view name, const std::filesystem::path& out_dir, std::int64_t train_count,
                std::int64_t test_count, std::uint64_t seed);

}  // namespace lockstep::data
