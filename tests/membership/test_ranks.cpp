#include <lockstep/membership/decisions.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::membership {
namespace {

TEST(Ranks, NodeIdsAreOrderedAsPeopleCount) {
  const std::vector<std::string> expected = {"",   "0",   "1",  "2",   "07",       "7",        "10",       "a",
                                             "a1", "a1b", "a2", "a10", "worker_2", "worker_9", "worker_10"};
  std::vector<std::string> sorted = {"worker_10", "10", "a1b", "worker_9", "2",  "a10", "7", "07",
                                     "a2",        "1",  "a",   "worker_2", "a1", "0",   ""};
  std::sort(sorted.begin(), sorted.end(), [](const auto& x, const auto& y) { return natural_less(x, y); });
  EXPECT_EQ(sorted, expected);
  EXPECT_FALSE(natural_less("x7", "x7"));
  EXPECT_TRUE(natural_less("9", "10000000000000000000000000000"));
}

Member member(const std::string& id, bool named, const std::string& machine, std::optional<int> rank = std::nullopt) {
  Member one;
  one.node_id = id;
  one.named = named;
  one.machine = machine;
  one.rank = rank;
  return one;
}

struct RankCase {
  const char* what;
  std::vector<Member> members;
  std::vector<int> ranks;
};

TEST(Ranks, OfServersComeAfterThoseOfAllWorkers) {
  std::vector<Member> members{member("a0", true, "m"), member("w1", true, "m"), member("", false, "m"),
                              member("a1", true, "n"), member("w0", true, "n")};
  for (const std::size_t server : {0, 2, 3}) members[server].server = true;
  EXPECT_EQ(choose_ranks(members), (std::vector<int>{2, 1, 4, 3, 0}));
}

TEST(Ranks, FollowTheNames) {
  const std::vector<RankCase> cases = {
      {"whoever came first", {member("w1", true, "a"), member("w0", true, "b")}, {1, 0}},
      {"integers pin the rank", {member("2", true, "a"), member("0", true, "a"), member("1", true, "a")}, {2, 0, 1}},
      {"random ids: machine by machine",
       {member("r", false, "b"), member("p", false, "a"), member("q", false, "b"), member("s", false, "a")},
       {0, 2, 1, 3}},
      {"names before random ids", {member("a", false, "m"), member("z", true, "m")}, {1, 0}},
      {"a rank is kept", {member("w0", true, "a"), member("w1", true, "a", 0), member("w2", true, "a")}, {1, 0, 2}},
      {"all are kept", {member("w0", true, "a", 1), member("w1", true, "a", 0)}, {1, 0}},
  };
  for (const auto& one : cases) EXPECT_EQ(choose_ranks(one.members), one.ranks) << one.what;
}

}  // namespace
}  // namespace lockstep::membership
