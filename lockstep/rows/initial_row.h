// The initial values of a table's rows, as a pure function: a row can be made on any machine when it is first needed.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::rows {

/// Writes row `row` of the table with this seed: numbers with mean 0 and the given deviation, nearly normal (the sum of
/// twelve uniform numbers: at most 6 deviations from 0). The same on every machine: it adds only integers, and rounds
/// one product in double to float32.
void initial_row(std::uint64_t seed, std::int64_t row, double deviation, std::span<float> numbers);

/// A well mixed function of 64 bits, one to one: the last step of Steele et al.'s SplitMix ("Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014).
std::uint64_t mixed(std::uint64_t bits);

}  // namespace lockstep::rows
