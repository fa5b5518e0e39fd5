#include <lockstep/mirrored/parameter_layout.h>

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lockstep::mirrored {
namespace {

constexpr int kFloat32 = 6;
constexpr int kDouble = 7;

std::vector<GradientSize> random_sizes(std::mt19937& random) {
  std::uniform_int_distribution<int> count(0, 12), elements(0, 3000), kind(0, 2);
  std::vector<GradientSize> sizes;
  for (int i = count(random); i > 0; --i) {
    const bool wide = kind(random) == 0;
    sizes.push_back({elements(random), wide ? 8 : 4, wide ? kDouble : kFloat32});
  }
  return sizes;
}

TEST(ShardPlan, EveryElementHasExactlyOneOwner) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto sizes = random_sizes(random);
    const int ranks = 1 + round % 5;
    std::vector<std::vector<int>> owners(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) owners[i].resize(static_cast<std::size_t>(sizes[i].elements));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto plan = plan_shards(sizes, rank, ranks, 1024);
      for (const auto& piece : plan.pieces) {
        EXPECT_GT(piece.elements, 0);
        EXPECT_LE(piece.elements * sizes[piece.parameter].element_bytes, 1024);
        EXPECT_EQ(piece.begin * sizes[piece.parameter].element_bytes % 64, 0);
        for (auto e = piece.begin; e < piece.begin + piece.elements; ++e) {
          ++owners[piece.parameter].at(static_cast<std::size_t>(e));
        }
      }
    }
    for (const auto& parameter : owners) {
      for (const int owner_count : parameter) ASSERT_EQ(owner_count, 1);
    }
  }
}

TEST(ShardPlan, PiecesLieInTheShardOfTheirRank) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const auto sizes = random_sizes(random);
    for (int rank = 0; rank < 3; ++rank) {
      const auto plan = plan_shards(sizes, rank, 3);
      for (const auto& piece : plan.pieces) {
        const auto& place = plan.places[piece.parameter];
        const auto shard = plan.arenas[place.arena].shard_elements;
        EXPECT_GE(place.offset + piece.begin, shard * rank);
        EXPECT_LE(place.offset + piece.begin + piece.elements, shard * (rank + 1));
      }
    }
  }
}

TEST(ShardPlan, DividesEvenly) {
  const auto plan = plan_shards({{1000, 4, kFloat32}, {10, 4, kFloat32}, {24, 8, kDouble}}, 0, 2);
  ASSERT_EQ(plan.arenas.size(), 2U);
  EXPECT_EQ(plan.arenas[0].shard_elements, 512);  // 1008 + 16, in lines of 16
  EXPECT_EQ(plan.arenas[1].shard_elements, 16);   // 24 in lines of 8
  EXPECT_EQ(plan.places[1].offset, 1008);
  EXPECT_EQ(plan.places[2].offset, 0);
}

TEST(ShardPlan, NothingToShard) { EXPECT_TRUE(plan_shards({}, 0, 2).arenas.empty()); }

}  // namespace
}  // namespace lockstep::mirrored
