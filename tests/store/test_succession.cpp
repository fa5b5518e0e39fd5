// Who leads a store with copies: the rules, case by case.
#include <lockstep/store/succession.h>

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace lockstep::store {
namespace {

/// Members "a" (the leader), "b", ...
View view_of(int members) {
  View view{"store", 3, 7, std::chrono::seconds(5), {}};
  for (char id = 'a'; id < 'a' + members; ++id) view.members.push_back({std::string(1, id), {"host", 1}});
  return view;
}

Ids ids(const std::string& letters) {
  Ids found;
  for (const char letter : letters) found.insert(std::string(1, letter));
  return found;
}

struct GoOnCase {
  int members;
  std::string with;
  bool may;
};

TEST(Succession, ALeaderGoesOnWithHalf) {
  const std::vector<GoOnCase> cases = {{1, "a", true},   {2, "a", true},    {3, "a", false},  {3, "ab", true},
                                       {4, "a", false},  {4, "ac", true},   {5, "ab", false}, {5, "abe", true},
                                       {3, "ax", false}, {4, "axyz", false}};
  for (const auto& [members, with, may] : cases) {
    EXPECT_EQ(may_go_on(view_of(members), ids(with)), may) << members << " " << with;
  }
}

struct SucceedCase {
  int members;
  std::string self;
  std::string votes;
  std::string ended;
  bool in_time;
  bool may;
};

std::ostream& operator<<(std::ostream& out, const SucceedCase& one) {
  return out << one.self << " of " << one.members << ", votes " << one.votes << ", ended " << one.ended
             << (one.in_time ? ", in time" : "");
}

TEST(Succession, AMemberSucceedsWithMoreThanHalfOrAfterADeath) {
  const std::vector<SucceedCase> cases = {
      // The leader is silent.
      {2, "b", "b", "", false, false},
      {3, "b", "b", "", false, false},
      {3, "b", "bc", "", false, true},
      {3, "c", "bc", "", false, true},
      {4, "b", "bc", "", false, false},
      {4, "d", "bcd", "", false, true},
      {5, "c", "cde", "", false, true},
      // Its process has ended, and was found to in time.
      {2, "b", "b", "a", true, true},
      {3, "b", "b", "a", true, true},
      {3, "c", "c", "a", true, false},
      {3, "c", "c", "ab", true, true},
      {3, "c", "bc", "a", true, true},
      {4, "b", "b", "a", true, true},
      {5, "b", "b", "a", true, false},
      {5, "b", "be", "a", true, true},
      {5, "e", "e", "abcd", true, false},
      // That was found too late: it may have gone on without this one.
      {2, "b", "b", "a", false, false},
      {3, "b", "b", "a", false, false},
      {3, "c", "c", "ab", false, false},
      // Who led before and has stepped down.
      {3, "a", "a", "", false, false},
      {3, "a", "ac", "b", false, true},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(
        may_succeed(view_of(one.members), one.self, {ids(one.votes), ids(one.ended), ids(one.in_time ? "a" : "")}),
        one.may)
        << one;
  }
}

TEST(Succession, AMemberSucceedsByAllViewsThatOthersMayHave) {
  Standing self{"b", view_of(2), {view_of(4)}};
  EXPECT_FALSE(may_succeed(self, {ids("b"), ids("a"), {}}));
  EXPECT_TRUE(may_succeed(self, {ids("b"), ids("a"), ids("a")}));
  self.earlier = {view_of(5)};
  EXPECT_FALSE(may_succeed(self, {ids("b"), ids("a"), ids("a")}));
  self.earlier = {view_of(1)};
  EXPECT_TRUE(may_succeed(self, {ids("b"), ids("a"), ids("a")})) << "it came last, and there is nobody else";
  self.view.members.pop_back();
  EXPECT_FALSE(may_succeed(self, {ids("b"), ids("a"), ids("a")})) << "it is no member";
}

TEST(Succession, NoTwoLeadersFromOneView) {
  // Whatever part is with the leader, the rest cannot succeed it; and no two parts can succeed one that is silent.
  for (int members = 1; members <= 5; ++members) {
    const auto view = view_of(members);
    for (unsigned part = 0; part < (1U << members); ++part) {
      Ids with;
      Ids rest;
      for (std::size_t i = 0; i < view.members.size(); ++i) {
        (((part >> i) & 1U) != 0 ? with : rest).insert(view.members[i].id);
      }
      for (const auto& self : rest) {
        const bool succeeds = may_succeed(view, self, {rest, {}, {}});
        EXPECT_FALSE(succeeds && with.contains("a") && may_go_on(view, with)) << members << " " << part;
        for (const auto& other : with) {
          EXPECT_FALSE(succeeds && may_succeed(view, other, {with, {}, {}})) << members << " " << part;
        }
      }
    }
  }
}

TEST(Succession, AVoteIsForOneWithTheNewestViewAndOncePerEpoch) {
  Standing voter{"b", view_of(3), {}, false, true, true, 3, {}};
  const auto view = view_of(3);
  EXPECT_TRUE(may_vote(voter, view, 4));
  EXPECT_FALSE(may_vote(voter, view, 3));
  auto older = view;
  older.version = 6;
  EXPECT_FALSE(may_vote(voter, older, 4));
  auto newer = view;
  newer.version = 8;
  EXPECT_TRUE(may_vote(voter, newer, 4));
  newer.store = "another";
  EXPECT_FALSE(may_vote(voter, newer, 4));
  voter.promised = 4;
  EXPECT_FALSE(may_vote(voter, view, 4));
  EXPECT_TRUE(may_vote(voter, view, 5));
  voter.free = false;
  EXPECT_FALSE(may_vote(voter, view, 5)) << "it hears of its leader";
  voter.free = voter.leads = true;
  EXPECT_FALSE(may_vote(voter, view, 5));
}

}  // namespace
}  // namespace lockstep::store
