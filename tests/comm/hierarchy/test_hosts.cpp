// Who is where.
#include <lockstep/comm/hierarchy/plans.h>

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

using detail::hierarchy::Hosts;
using detail::hierarchy::hosts_of;
using Ranks = std::vector<int>;

TEST(Hosts, OfEqualSizeInOrder) {
  const auto hosts = hosts_of({0, 0, 1, 1, 2, 2}, 3);
  EXPECT_EQ(hosts.count(), 3);
  EXPECT_EQ(hosts.size(), 6);
  EXPECT_EQ(hosts.self, (Hosts::Place{1, 1}));
  EXPECT_FALSE(hosts.leads());
  EXPECT_TRUE(hosts.even());
  EXPECT_TRUE(hosts.in_order());
  EXPECT_EQ(hosts.width(), 2);
  EXPECT_EQ(hosts.neighbours(), (Ranks{2, 3}));
  EXPECT_EQ(hosts.columns(), 2);
  EXPECT_TRUE(hosts.in_column());
  EXPECT_EQ(hosts.column(0), (Ranks{0, 2, 4}));
  EXPECT_EQ(hosts.column(1), (Ranks{1, 3, 5}));
}

TEST(Hosts, WhoseRanksDoNotFollowOneAnother) {
  const auto hosts = hosts_of({0, 1, 1, 0}, 3);
  EXPECT_EQ(hosts.self, (Hosts::Place{0, 1}));
  EXPECT_TRUE(hosts.even());
  EXPECT_FALSE(hosts.in_order());
  EXPECT_EQ(hosts.members, (std::vector<Ranks>{{0, 3}, {1, 2}}));
  EXPECT_EQ(hosts.column(1), (Ranks{3, 2}));
}

TEST(Hosts, OfDifferentSizesHaveOnlyTheirLeadersInAColumn) {
  const auto hosts = hosts_of({0, 1, 0, 2, 0}, 4);
  EXPECT_EQ(hosts.self, (Hosts::Place{0, 2}));
  EXPECT_FALSE(hosts.even());
  EXPECT_FALSE(hosts.in_order());
  EXPECT_EQ(hosts.width(), 3);
  EXPECT_EQ(hosts.columns(), 1);
  EXPECT_FALSE(hosts.in_column());
  EXPECT_EQ(hosts.column(0), (Ranks{0, 1, 3}));
  EXPECT_TRUE(hosts_of({0, 1, 0, 2, 0}, 3).leads());
}

}  // namespace
}  // namespace lockstep::test
