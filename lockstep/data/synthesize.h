// Synthetic data sets: learnable pictures in the exact file layout of a data set, for tests without the real one.
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

}  // namespace lockstep::data
