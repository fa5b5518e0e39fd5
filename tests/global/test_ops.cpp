// Every operator of the tables with inputs that lie in every way, on meshes of one to four ranks and 2 x 2: values and
// gradients are those of one device.
#include "check_op.h"

#include "support/ranks.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace lockstep {
namespace {

using test::OpCase;
using test::Rank;
using test::RankOptions;

std::vector<OpCase> all_cases() {
  std::vector<OpCase> all;
  for (auto* family : {test::elementwise_cases, test::product_cases, test::reduction_cases, test::view_cases,
                       test::indexing_cases, test::in_place_cases, test::foreach_cases, test::view_write_cases}) {
    for (auto& each : family()) all.push_back(std::move(each));
  }
  return all;
}

class GlobalOps : public testing::TestWithParam<std::vector<int>> {};

TEST_P(GlobalOps, AreThoseOfOneDevice) {
  int ranks = 1;
  for (const int size : GetParam()) ranks *= size;
  const std::uint64_t seed = static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed)) + 1;
  const RankOptions options{.deadline = std::chrono::seconds(400), .group = RankOptions::test_group_options("shm")};
  test::run_ranks(ranks, options, [&](Rank& rank) {
    const Mesh mesh(rank.group(), GetParam());
    std::size_t tried = 0;
    const std::size_t most = mesh.axes() == 1 ? 400 : 16;  // along one axis all ways, also of three matrices
    for (const auto& each : all_cases()) tried += test::check_op(each, mesh, {.seed = seed, .most = most});
    if (rank.rank() == 0) std::printf("%zu combinations\n", tried);
    EXPECT_GT(tried, all_cases().size());
  });
}

std::string mesh_name(const testing::TestParamInfo<std::vector<int>>& info) {
  std::string name = "mesh";
  for (const int size : info.param) name.append("_").append(std::to_string(size));
  return name;
}

INSTANTIATE_TEST_SUITE_P(, GlobalOps,
                         testing::Values(std::vector{1}, std::vector{2}, std::vector{3}, std::vector{4},
                                         std::vector{2, 2}),
                         mesh_name);

}  // namespace
}  // namespace lockstep
