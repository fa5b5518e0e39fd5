// All pairs of placements on meshes of one to three axes: each step takes only what the ranks of its line hold, and the
// last one arrives.
#include <lockstep/global/placement.h>

#include "rules/all_placements.h"
#include "rules/simulated_ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using test::on_all_axes;
using test::SimulatedRanks;

void expect_a_way(const std::vector<int>& mesh, std::pair<std::int64_t, std::int64_t> sizes, const Placements& from,
                  const Placements& to) {
  SimulatedRanks ranks(mesh, sizes, from);
  const auto steps = global::transitions(from, to);
  std::string way = to_string(from);
  for (const auto& step : steps) {
    way += fmt::format(" -> axis {} {}", step.axis, to_string(step.to));
    const auto wrong = ranks.make(step);
    ASSERT_FALSE(wrong) << way << ": " << *wrong;
  }
  ASSERT_EQ(ranks.placements(), to) << way;
  const auto wrong = ranks.check();
  ASSERT_FALSE(wrong) << way << ": " << *wrong;
  if (from == to) {
    EXPECT_TRUE(steps.empty()) << way;
  }
  EXPECT_LE(steps.size(), 2 * mesh.size()) << way;
}

void expect_ways(const std::vector<int>& mesh, std::pair<std::int64_t, std::int64_t> sizes,
                 const std::vector<Placement>& each) {
  const auto all = on_all_axes(each, mesh.size());
  for (const auto& from : all) {
    for (const auto& to : all) {
      expect_a_way(mesh, sizes, from, to);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

const std::vector<Placement> kEach{
    Replicate(),           Shard(0), Shard(1), Partial(), Partial(ReduceOp::mean), Partial(ReduceOp::max),
    Partial(ReduceOp::min)};

TEST(Transitions, OneAxis) {
  for (const int ranks : {1, 2, 3, 4, 5}) expect_ways({ranks}, {5, 3}, kEach);
}

TEST(Transitions, TwoAxes) {
  expect_ways({2, 2}, {5, 3}, kEach);
  expect_ways({2, 3}, {4, 7}, kEach);
  expect_ways({3, 2}, {1, 2}, kEach);
}

TEST(Transitions, ThreeAxes) { expect_ways({2, 2, 2}, {5, 3}, {Replicate(), Shard(0), Shard(1), Partial()}); }

TEST(Transitions, NothingIsGatheredThatNeedNotBe) {
  using Steps = std::vector<global::Step>;
  EXPECT_EQ(global::transitions({Partial()}, {Shard(0)}), (Steps{{0, Partial(), Shard(0)}}));
  EXPECT_EQ(global::transitions({Shard(0)}, {Shard(1)}), (Steps{{0, Shard(0), Shard(1)}}));
  EXPECT_EQ(global::transitions({Shard(0), Partial()}, {Shard(0), Shard(1)}), (Steps{{1, Partial(), Shard(1)}}));
  EXPECT_EQ(global::transitions({Shard(0), Shard(1)}, {Shard(0), Replicate()}), (Steps{{1, Shard(1), Replicate()}}));
  EXPECT_EQ(global::transitions({Shard(0), Shard(0)}, {Shard(0), Shard(1)}), (Steps{{1, Shard(0), Shard(1)}}));
}

TEST(Transitions, TrafficIsThatOfARing) {
  EXPECT_EQ(global::traffic(Replicate(), Shard(0), 100, 4), 0);
  EXPECT_EQ(global::traffic(Shard(0), Shard(0), 100, 4), 0);
  EXPECT_EQ(global::traffic(Partial(), Replicate(), 100, 4), 150);
  EXPECT_EQ(global::traffic(Partial(), Shard(0), 100, 4), 75);
  EXPECT_EQ(global::traffic(Shard(0), Replicate(), 100, 4), 75);
  EXPECT_EQ(global::traffic(Shard(0), Shard(1), 100, 4), 18.75);
  EXPECT_EQ(global::traffic(Partial(), Replicate(), 100, 1), 0);
}

}  // namespace
}  // namespace lockstep
