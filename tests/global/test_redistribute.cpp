// From every way to lie to every other.
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/placement.h>

#include "placed.h"
#include "rules/all_placements.h"
#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using test::placed;
using test::Rank;
using test::RankOptions;

at::Tensor part_of(const at::Tensor& whole, const Mesh& mesh, const Placements& placements) {
  at::Tensor part = whole;
  for (std::int64_t dim = 0; dim < whole.dim(); ++dim) {
    const auto rows = global::part_of(whole.size(dim), dim, placements, mesh.sizes(), mesh.coordinate());
    part = part.narrow(dim, rows.begin, rows.size);
  }
  return part;
}

bool has_partial(const Placements& placements) {
  for (const auto& each : placements) {
    if (each.is_partial()) return true;
  }
  return false;
}

void expect_moved(const at::Tensor& whole, const Mesh& mesh, const Placements& from, const Placements& to) {
  const auto moved = redistribute(placed(whole, mesh, from), to);
  const auto way = to_string(from) + " -> " + to_string(to) + " on " + to_string(mesh);
  ASSERT_EQ(placements_of(moved), to) << way;
  ASSERT_EQ(moved.sizes(), whole.sizes()) << way;
  if (has_partial(to)) {
    ASSERT_TRUE(torch::allclose(full(moved), whole)) << way;
  } else {
    ASSERT_TRUE(torch::allclose(to_local(moved), part_of(whole, mesh, to))) << way << "\n" << to_local(moved);
  }
}

void expect_all_ways(const std::vector<int>& sizes, const std::vector<Placement>& each,
                     const std::vector<std::vector<std::int64_t>>& shapes) {
  int ranks = 1;
  for (const int size : sizes) ranks *= size;
  const RankOptions options{.deadline = std::chrono::seconds(200), .group = RankOptions::test_group_options("shm")};
  test::run_ranks(ranks, options, [&](Rank& rank) {
    const Mesh mesh(rank.group(), sizes);
    const auto all = test::on_all_axes(each, sizes.size());
    for (const auto& shape : shapes) {
      std::int64_t count = 1;
      for (const auto size : shape) count *= size;
      const auto whole = torch::arange(count, torch::kFloat).reshape(shape);
      for (const auto& from : all) {
        for (const auto& to : all) {
          expect_moved(whole, mesh, from, to);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Redistribute, AllPairsOnOneAxis) {
  for (const int ranks : {1, 2, 3, 4}) {
    expect_all_ways({ranks}, test::ways_to_lie(2, true), {{5, 7}, {4, 8}, {1, 2}, {0, 3}});
  }
}

TEST(Redistribute, AllPairsOnTwoAxes) {
  expect_all_ways({2, 2}, {Replicate(), Shard(0), Shard(1), Partial(), Partial(ReduceOp::max)}, {{5, 3}, {1, 4}});
}

TEST(Redistribute, GradientsComeBackAsTheTensorLay) {
  const RankOptions options{.group = RankOptions::test_group_options("shm")};
  test::run_ranks(3, options, [&](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto whole = torch::arange(10, torch::kFloat).reshape({5, 2});
    const auto weight = torch::arange(10, torch::kFloat).reshape({5, 2}).neg();
    for (const auto& from : test::ways_to_lie(2, true)) {
      for (const auto& to : test::ways_to_lie(2, true)) {
        auto x = placed(whole, mesh, {from}).requires_grad_();
        (redistribute(x, {to}) * placed(weight, mesh, {Replicate()})).sum().backward();
        EXPECT_TRUE(torch::equal(full(x.grad()), weight)) << to_string(from) << " -> " << to_string(to);
        EXPECT_EQ(placements_of(x.grad())[0], from.is_partial() ? Replicate() : from);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep
