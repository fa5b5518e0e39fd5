// Row values from SplitMix64 by seed and row: sums of twelve 16-bit numbers, nearly normal, without libm.
#include <lockstep/rows/initial_row.h>

#include <algorithm>

namespace lockstep::rows {
namespace {

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;
constexpr int kWords = 3;               // words, each with four uniform numbers of 16 bits
constexpr std::int64_t kMean = 393210;  // the mean of the sum of twelve: 12 * 65535 / 2
constexpr double kUnit = 1.0 / 65536;

std::int64_t sum_of_parts(std::uint64_t word) {
  return static_cast<std::int64_t>((word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48));
}

}  // namespace

std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

void initial_row(std::uint64_t seed, std::int64_t row, double deviation, std::span<float> numbers) {
  if (deviation == 0) {
    std::ranges::fill(numbers, 0.0F);
    return;
  }
  const double scale = deviation * kUnit;
  std::uint64_t state = mixed(mixed(seed + kGamma) + static_cast<std::uint64_t>(row) * kGamma);
  for (auto& number : numbers) {
    std::int64_t sum = 0;
    for (int word = 0; word < kWords; ++word) sum += sum_of_parts(mixed(state += kGamma));
    number = static_cast<float>(scale * static_cast<double>(sum - kMean));
  }
}

}  // namespace lockstep::rows
