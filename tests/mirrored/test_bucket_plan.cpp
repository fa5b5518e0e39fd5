#include <lockstep/mirrored/parameter_layout.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace lockstep::mirrored {
namespace {

constexpr int kFloat = 6;
constexpr int kHalf = 5;

std::vector<std::vector<std::size_t>> members(const std::vector<BucketPlan>& plan) {
  std::vector<std::vector<std::size_t>> all;
  for (const auto& bucket : plan) {
    auto& list = all.emplace_back();
    for (const auto& member : bucket.members) list.push_back(member.parameter);
  }
  return all;
}

using Members = std::vector<std::vector<std::size_t>>;

TEST(BucketPlan, NoParametersNeedNothing) {
  EXPECT_TRUE(plan_buckets({}, {}, {}).empty());
  EXPECT_TRUE(arena_sizes({}, {}).empty());
}

TEST(BucketPlan, LaysOutOneBucketOnCacheLines) {
  // 10 x 10 + 10 + 50 + 5 floats, last to first; 16 floats a line.
  const std::vector<GradientSize> sizes{{100, 4, kFloat}, {10, 4, kFloat}, {50, 4, kFloat}, {5, 4, kFloat}};
  const auto plan = plan_buckets(sizes, {3, 2, 1, 0}, {});
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(members(plan), (Members{{3, 2, 1, 0}}));
  EXPECT_EQ(plan[0].members[0].offset, 0);
  EXPECT_EQ(plan[0].members[1].offset, 16);
  EXPECT_EQ(plan[0].members[2].offset, 80);
  EXPECT_EQ(plan[0].members[3].offset, 96);
  EXPECT_EQ(plan[0].tail, 208);
  EXPECT_EQ(plan[0].elements, 240) << "two lines hold the marks and four flags";
}

TEST(BucketPlan, KeepsBucketsWithinTheLimitAndTheFirstWithinItsOwn) {
  const std::vector<GradientSize> sizes(8, {16, 4, kFloat});  // 64 bytes each
  const auto plan = plan_buckets(sizes, {7, 6, 5, 4, 3, 2, 1, 0}, {.bytes = 192, .first_bytes = 64});
  EXPECT_EQ(members(plan), (Members{{7}, {6, 5, 4}, {3, 2, 1}, {0}}));
}

TEST(BucketPlan, GivesAGradientAboveTheLimitABucketOfItsOwn) {
  const std::vector<GradientSize> sizes{{16, 4, kFloat}, {1000, 4, kFloat}, {16, 4, kFloat}};
  const auto plan = plan_buckets(sizes, {0, 1, 2}, {.bytes = 128, .first_bytes = 128});
  EXPECT_EQ(members(plan), (Members{{0}, {1}, {2}}));
}

TEST(BucketPlan, SeparatesDtypesAndOrdersByCompletion) {
  const std::vector<GradientSize> sizes{{16, 4, kFloat}, {32, 2, kHalf}, {16, 4, kFloat}, {32, 2, kHalf}};
  const auto plan = plan_buckets(sizes, {3, 2, 0, 1}, {});
  EXPECT_EQ(members(plan), (Members{{2, 0}, {3, 1}})) << "the last float comes before the last half";
  EXPECT_EQ(plan[0].dtype, kFloat);
  EXPECT_EQ(plan[1].dtype, kHalf);
  EXPECT_EQ(plan[1].begin, 0) << "each dtype has an arena of its own";
  EXPECT_EQ(plan[1].members[1].offset, 32);
}

TEST(BucketPlan, TakesParametersWithoutElements) {
  const auto plan = plan_buckets({{0, 4, kFloat}, {1, 4, kFloat}}, {1, 0}, {});
  EXPECT_EQ(members(plan), (Members{{1, 0}}));
  EXPECT_EQ(plan[0].tail, 16);
}

/// What must hold for any sizes, order and limits.
void check_plan(const std::vector<GradientSize>& sizes, const std::vector<std::size_t>& order,
                const BucketLimits& limits) {
  const auto plan = plan_buckets(sizes, order, limits);
  std::map<std::size_t, std::size_t> position;
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;

  std::set<std::size_t> seen;
  std::map<int, std::int64_t> next;
  std::size_t last_complete = 0;
  for (std::size_t b = 0; b < plan.size(); ++b) {
    const auto& bucket = plan[b];
    ASSERT_FALSE(bucket.members.empty());
    const std::int64_t element_bytes = sizes[bucket.members[0].parameter].element_bytes;
    EXPECT_EQ(bucket.begin, next[bucket.dtype]) << "buckets of a dtype follow each other without gaps";
    EXPECT_EQ(bucket.begin * element_bytes % 64, 0);
    next[bucket.dtype] += bucket.elements;

    std::int64_t end = 0;
    for (const auto& member : bucket.members) {
      EXPECT_TRUE(seen.insert(member.parameter).second) << "parameter " << member.parameter << " twice";
      EXPECT_EQ(sizes[member.parameter].dtype, bucket.dtype);
      EXPECT_GE(member.offset, end) << "overlap";
      EXPECT_EQ(member.offset * element_bytes % 64, 0);
      end = member.offset + sizes[member.parameter].elements;
    }
    EXPECT_GE(bucket.tail, end);
    EXPECT_GE(bucket.elements, bucket.tail + kMarks + static_cast<std::int64_t>(bucket.members.size()));
    if (bucket.members.size() > 1) {
      EXPECT_LE(bucket.tail * element_bytes, std::max(limits.bytes, limits.first_bytes));
    }
    const std::size_t complete = position[bucket.members.back().parameter];
    if (b > 0) {
      EXPECT_GT(complete, last_complete);
    }
    last_complete = complete;
  }
  EXPECT_EQ(seen.size(), sizes.size());
  const auto arenas = arena_sizes(sizes, limits);
  EXPECT_EQ(arenas.size(), next.size());
  for (const auto& arena : arenas) EXPECT_LE(next[arena.dtype], arena.elements);
}

TEST(BucketPlan, HoldsItsRulesForRandomModules) {
  std::mt19937 random(20);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  constexpr std::int64_t kElementBytes[] = {2, 4, 8};
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    std::vector<GradientSize> sizes;
    for (std::int64_t i = pick(1, 40); i > 0; --i) {
      const int dtype = static_cast<int>(pick(0, 2));
      sizes.push_back({pick(0, 1) == 0 ? pick(0, 20) : pick(0, 5000), kElementBytes[dtype], dtype});
    }
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    check_plan(sizes, order, {.bytes = pick(1, 30000), .first_bytes = pick(1, 30000)});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::mirrored
