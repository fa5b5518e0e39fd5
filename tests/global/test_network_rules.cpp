// Operators of networks, forward and backward, are on a mesh what they are on one device, however their inputs lie and
// whether or not sizes divide evenly.
#include "network_cases.h"
#include "support/ranks.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using test::Rank;
using test::RankOptions;

/// All cases in one job, so that ranks start once; `at_most` ways to lie for each.
void expect_all(int ranks, const std::vector<int>& sizes, std::size_t at_most,
                std::vector<test::OperatorCase> (*cases)() = test::network_cases) {
  const RankOptions options{.deadline = std::chrono::seconds(800), .group = RankOptions::test_group_options("shm")};
  test::run_ranks(ranks, options, [&](Rank& rank) {
    torch::set_num_threads(1);
    const Mesh mesh(rank.group(), sizes);
    for (const auto& each : cases()) {
      ASSERT_NO_FATAL_FAILURE(test::expect_as_on_one_device(each, mesh, at_most));
    }
  });
}

TEST(GlobalNetworkRules, OnOneRank) { expect_all(1, {1}, 4); }
TEST(GlobalNetworkRules, OnTwoRanks) { expect_all(2, {2}, 20); }
TEST(GlobalNetworkRules, OnThreeRanks) { expect_all(3, {3}, 10); }
TEST(GlobalNetworkRules, OnFourRanks) { expect_all(4, {4}, 8); }
TEST(GlobalNetworkRules, OnTwoByTwoRanks) { expect_all(4, {2, 2}, 12); }
TEST(GlobalNetworkRules, WithPartsOfNothingOnTwoRanks) { expect_all(2, {2}, 12, test::small_cases); }
TEST(GlobalNetworkRules, WithPartsOfNothingOnFourRanks) { expect_all(4, {4}, 8, test::small_cases); }

}  // namespace
}  // namespace lockstep
