// The first values of a table's rows, as a pure function: a row can be made when it is first needed, wherever it is.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::rows {

/// Writes row `row` of the table with this seed: numbers with mean 0 and that deviation, nearly normal (the sum of
/// twelve uniform ones: none is further than 6 deviations from 0). The same on every machine: only integers are added,
/// and one product in double is rounded to float32.
void initial_row(std::uint64_t seed, std::int64_t row, double deviation, std::span<float> numbers);

/// A well mixed function of 64 bits, one to one: the last step of Steele et al.'s SplitMix ("Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014).
std::uint64_t mixed(std::uint64_t bits);

}  // namespace lockstep::rows
