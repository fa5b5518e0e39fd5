// The format of Criteo's data of clicks: lines of a label, 13 whole numbers and 26 categories, separated by TAB.
#pragma once

#include <lockstep/base/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::data {

inline constexpr std::size_t kCriteoNumbers = 13;
inline constexpr std::size_t kCriteoCategories = 26;
inline constexpr std::size_t kCriteoFields = kCriteoNumbers + kCriteoCategories;
inline constexpr std::string_view kCriteoTrain = "train.txt";
inline constexpr std::string_view kCriteoTest = "test.txt";

/// Categories of each column in the set of Kaggle's competition.
inline constexpr std::array<std::int64_t, kCriteoCategories> kCriteoCardinalities{
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};

struct CriteoRow {
  bool clicked = false;
  std::array<std::optional<std::int64_t>, kCriteoNumbers> numbers{};
  std::array<std::optional<std::uint32_t>, kCriteoCategories> categories{};
};

/// A line without its end. Error(data) at `position`, with the column from 1, for anything but a label 0 or 1, whole
/// numbers (or nothing) and eight hexadecimal digits (or nothing).
CriteoRow parse_criteo_line(std::string_view line, const FilePosition& position);

}  // namespace lockstep::data
