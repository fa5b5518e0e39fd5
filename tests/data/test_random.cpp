#include <gtest/gtest.h>
#include <lockstep/data/sampler.h>

#include <array>
#include <set>

namespace lockstep::data {
namespace {

TEST(Random, IsSplitMix64) {
  // The first output for seed 1234567 in the published test vectors.
  EXPECT_EQ(mix64(1234567 + 0x9e3779b97f4a7c15ULL), 6457827717110365317ULL);
}

// Computed by another implementation (in Python); a change here changes every run's samples.
TEST(Random, StreamIsPinned) {
  RandomStream random(42, RandomPurpose::transform, {7, 9});
  EXPECT_EQ(random.next(), 4262190625295472356ULL);
  EXPECT_EQ(random.next(), 11287730901132992055ULL);
  EXPECT_EQ(random.next(), 8069727692597934461ULL);
}

TEST(Random, EveryPartOfTheKeyCounts) {
  std::set<std::uint64_t> first;
  for (const std::uint64_t seed : {0, 1}) {
    for (const auto purpose : {RandomPurpose::order, RandomPurpose::transform}) {
      for (const std::uint64_t a : {0, 1, 2}) {
        for (const std::uint64_t b : {0, 1, 2}) first.insert(RandomStream(seed, purpose, {a, b}).next());
      }
      first.insert(RandomStream(seed, purpose, {0}).next());
      first.insert(RandomStream(seed, purpose, {}).next());
    }
  }
  EXPECT_EQ(first.size(), 2U * 2 * (9 + 2));
}

TEST(Random, BelowIsUniform) {
  RandomStream random(1, RandomPurpose::order, {});
  constexpr int kDraws = 70000;
  std::array<int, 7> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts[random.below(7)];
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 1e4) * (count - 1e4) / 1e4;
  EXPECT_LT(chi_square, 22.5) << "6 degrees of freedom; 0.1% of good generators exceed this";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.below(1), 0U);
}

TEST(Random, BelowHugeBoundsStaysBelow) {
  RandomStream random(1, RandomPurpose::order, {});
  const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;  // rejects almost half of all draws
  int upper_half = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.below(bound);
    ASSERT_LT(value, bound);
    upper_half += value > bound / 2 ? 1 : 0;
  }
  EXPECT_NEAR(upper_half, 500, 60);
}

TEST(Random, UniformCoversTheUnitInterval) {
  RandomStream random(5, RandomPurpose::transform, {});
  double sum = 0, low = 1, high = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = random.uniform();
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_GE(low, 0.0);
  EXPECT_LT(high, 1.0);
  EXPECT_LT(low, 0.001);
  EXPECT_GT(high, 0.999);
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

}  // namespace
}  // namespace lockstep::data
