// What the service of launchers decides: each rule, by what it sees.
#include <lockstep/cluster/elastic/decide.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cluster::elastic {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Decision::Kind;

NodeView node(Ticket ticket, Stage stage = Stage::waiting, int round = 0) {
  NodeView view;
  view.ticket = ticket;
  view.description.host = "host" + std::to_string(ticket);
  view.report.stage = stage;
  view.report.round = round;
  return view;
}

NodeView failed(Ticket ticket, int round) {
  NodeView view = node(ticket, Stage::waiting, round);
  view.report.failed = true;
  return view;
}

NodeView lost(NodeView view) {
  view.alive = false;
  return view;
}

Policy policy(int least, int most, int restarts = 0) {
  Policy policy;
  policy.min_nodes = least;
  policy.max_nodes = most;
  policy.max_restarts = restarts;
  policy.join_timeout = 60s;
  policy.last_call = 30s;
  return policy;
}

JobState state(Phase phase, int round, int restarts = 0) {
  JobState state;
  state.phase = phase;
  state.round = round;
  state.restarts = restarts;
  state.why = "a rank on host1 failed";
  return state;
}

using Nodes = std::vector<NodeView>;
using Tickets = std::vector<Ticket>;

Decision first_round(const Nodes& nodes, const Policy& rules, Waited waited = {}) {
  return decide(state(Phase::gathering, 0), {}, nodes, rules, waited);
}

Decision running(const Tickets& members, const Nodes& nodes, const Policy& rules) {
  return decide(state(Phase::running, 3), members, nodes, rules, {});
}

Decision gathering(const Tickets& members, const Nodes& nodes, const Policy& rules, Waited waited = {},
                   int restarts = 0) {
  return decide(state(Phase::gathering, 3, restarts), members, nodes, rules, waited);
}

TEST(Decide, TheFirstRoundBeginsAtOnceWhenAllAreThere) {
  EXPECT_EQ(first_round({node(1)}, policy(2, 2)).kind, Kind::wait);
  const auto formed = first_round({node(1), node(2)}, policy(2, 2));
  EXPECT_EQ(formed.kind, Kind::form);
  EXPECT_THAT(formed.members, ElementsAre(1, 2));
  EXPECT_FALSE(formed.uses_restart);
}

TEST(Decide, ThereIsALastCallForMoreThanTheLeast) {
  const Nodes two = {node(1), node(2)};
  const auto waiting = first_round(two, policy(2, 3), {.enough = 29s});
  EXPECT_EQ(waiting.kind, Kind::wait);
  EXPECT_TRUE(waiting.enough);
  EXPECT_EQ(first_round(two, policy(2, 3), {.enough = 30s}).kind, Kind::form);
  EXPECT_FALSE(first_round({node(1)}, policy(2, 3)).enough);
}

TEST(Decide, TooFewNodesEndTheJobAfterTheJoinTimeout) {
  EXPECT_EQ(first_round({node(1)}, policy(2, 2), {.gathering = 59s}).kind, Kind::wait);
  const auto closed = first_round({node(1)}, policy(2, 2), {.gathering = 60s});
  EXPECT_EQ(closed.kind, Kind::close);
  EXPECT_TRUE(closed.failed);
  EXPECT_THAT(closed.why, HasSubstr("only 1 of at least 2 nodes joined within 60.0 s (join_timeout): host1"));
}

TEST(Decide, WhoIsLostOrMayBeOfAnotherTimeIsNoCandidate) {
  NodeView old = node(2);
  old.current = false;
  EXPECT_EQ(first_round({node(1), old}, policy(2, 2)).kind, Kind::wait);
  EXPECT_EQ(first_round({node(1), lost(node(2))}, policy(2, 2)).kind, Kind::wait);
}

TEST(Decide, TheHolderOfTheStoreIsNodeZeroThenTheFirstToCome) {
  NodeView holder = node(3);
  holder.description.runs_service = true;
  EXPECT_THAT(first_round({node(1), node(2), holder}, policy(3, 3)).members, ElementsAre(3, 1, 2));
}

TEST(Decide, GivenNumbersAreKept) {
  Nodes nodes = {node(1), node(2), node(3)};
  for (int i = 0; i < 3; ++i) nodes[static_cast<std::size_t>(i)].description.given_rank = 2 - i;
  EXPECT_THAT(first_round(nodes, policy(3, 3)).members, ElementsAre(3, 2, 1));
  nodes[1].description.given_rank = 0;
  Policy rules = policy(3, 3);
  EXPECT_THAT(first_round(nodes, rules).members, ElementsAre(2, 3, 1));
  rules.ranks_given = true;
  EXPECT_EQ(first_round(nodes, rules).kind, Kind::wait);
  EXPECT_THAT(first_round(nodes, rules, {.gathering = 60s}).why,
              HasSubstr("several nodes were started with --node_rank 0"));
}

TEST(Decide, MoreThanTheMostAreSpares) {
  EXPECT_THAT(first_round({node(1), node(2), node(3)}, policy(1, 2)).members, ElementsAre(1, 2));
}

struct EndOfRound {
  const char* name;
  NodeView second;
  const char* why;  ///< nullptr: the round goes on
};

TEST(Decide, WhatEndsARound) {
  NodeView left = node(2, Stage::left, 3);
  left.report.note = "ended by SIGTERM";
  const EndOfRound cases[] = {
      {"runs", node(2, Stage::running, 3), nullptr},
      {"has not begun", node(2, Stage::waiting, 2), nullptr},
      {"has ended well", node(2, Stage::ended, 3), nullptr},
      {"failed", failed(2, 3), "a rank on host2 failed"},
      {"failed in an earlier round", failed(2, 2), nullptr},
      {"lost", lost(node(2, Stage::running, 3)), "host2 was lost: no heartbeat for 5.0 s"},
      {"left", lost(left), "host2 left (ended by SIGTERM)"},
  };
  for (const auto& [name, second, why] : cases) {
    const auto decision = running({1, 2}, {node(1, Stage::running, 3), second}, policy(1, 2));
    EXPECT_EQ(decision.kind, why == nullptr ? Kind::wait : Kind::end_round) << name;
    EXPECT_EQ(decision.why, why == nullptr ? "" : why) << name;
  }
}

TEST(Decide, ANodeThatComesEndsTheRoundWhereThereIsRoom) {
  const Nodes nodes = {node(1, Stage::running, 3), node(2)};
  EXPECT_EQ(running({1}, nodes, policy(1, 2)).why, "host2 joins");
  EXPECT_EQ(running({1}, nodes, policy(1, 1)).kind, Kind::wait);
  EXPECT_EQ(running({1}, {node(1, Stage::ended, 3), node(2), node(3, Stage::running, 3)}, policy(1, 3)).kind,
            Kind::close);
}

TEST(Decide, NobodyJoinsARoundThatSomeHaveEnded) {
  const Nodes nodes = {node(1, Stage::ended, 3), node(2, Stage::running, 3), node(3)};
  EXPECT_EQ(running({1, 2}, nodes, policy(1, 3)).kind, Kind::wait);
}

TEST(Decide, TheJobEndsWellWhenAllMembersHave) {
  const Nodes nodes = {node(1, Stage::ended, 3), node(2, Stage::ended, 3), node(3)};
  const auto decision = running({1, 2}, nodes, policy(1, 2));
  EXPECT_EQ(decision.kind, Kind::close);
  EXPECT_FALSE(decision.failed);
}

TEST(Decide, TheNextRoundWaitsForAllRanksToEnd) {
  for (const auto& second : {node(2, Stage::running, 3), node(2, Stage::ended, 3), node(2, Stage::waiting, 2)}) {
    EXPECT_EQ(gathering({1, 2}, {node(1, Stage::waiting, 3), second}, policy(1, 2)).kind, Kind::wait);
  }
  const auto next = gathering({1, 2}, {node(1, Stage::waiting, 3), lost(node(2, Stage::running, 3))}, policy(1, 2));
  EXPECT_EQ(next.kind, Kind::form);  // without a last call
  EXPECT_THAT(next.members, ElementsAre(1));
}

TEST(Decide, AFailureUsesARestartOfTheWholeJob) {
  const Nodes nodes = {node(1, Stage::waiting, 3), failed(2, 3)};
  const auto again = gathering({1, 2}, nodes, policy(2, 2, 2), {}, 1);
  EXPECT_EQ(again.kind, Kind::form);
  EXPECT_TRUE(again.uses_restart);
  const auto closed = gathering({1, 2}, nodes, policy(2, 2, 2), {}, 2);
  EXPECT_EQ(closed.kind, Kind::close);
  EXPECT_TRUE(closed.failed);
}

TEST(Decide, ALostOrLeavingNodeUsesNone) {
  // The ranks of node 1 failed because those of node 2 went.
  for (const auto& second : {lost(node(2, Stage::running, 3)), lost(node(2, Stage::left, 3))}) {
    const auto next = gathering({1, 2}, {failed(1, 3), second}, policy(1, 2));
    EXPECT_EQ(next.kind, Kind::form);
    EXPECT_FALSE(next.uses_restart);
  }
}

TEST(Decide, WhatWouldFailAgainEndsTheJob) {
  NodeView broken = failed(2, 3);
  broken.report.fatal = true;
  EXPECT_EQ(gathering({1, 2}, {node(1, Stage::waiting, 3), broken}, policy(1, 2, 9)).kind, Kind::close);
}

NodeView fatal(Ticket ticket, int round) {
  NodeView view = failed(ticket, round);
  view.report.fatal = true;
  return view;
}

TEST(Decide, NodesWithWhichTheProgramCannotRunAreRefused) {
  auto grown = state(Phase::gathering, 3);
  grown.before = {1};
  grown.ranks = 2;
  const Nodes nodes = {fatal(1, 3), failed(2, 3)};
  const auto decision = decide(grown, Tickets{1, 2}, nodes, policy(1, 2, 9), {});
  EXPECT_EQ(decision.kind, Kind::refuse);
  EXPECT_THAT(decision.refused, ElementsAre(2));
  EXPECT_THAT(decision.why, HasSubstr("host2 cannot join: a rank on host1 reports"));
  EXPECT_EQ(decide(grown, Tickets{1, 2}, Nodes{fatal(1, 3), node(2, Stage::running, 3)}, policy(1, 2, 9), {}).kind,
            Kind::wait)
      << "not all ranks have ended";

  auto refused = grown;
  refused.before.clear();
  refused.refused = {2};
  refused.refused_ranks = {2};
  refused.forgiven = 3;
  const auto next = decide(refused, Tickets{1, 2}, nodes, policy(1, 2), {});
  EXPECT_EQ(next.kind, Kind::form);
  EXPECT_THAT(next.members, ElementsAre(1));
  EXPECT_FALSE(next.uses_restart);
}

TEST(Decide, ANodeThatWouldMakeARefusedNumberOfRanksIsRefusedAtOnce) {
  auto going_on = state(Phase::running, 4);
  going_on.ranks = 1;
  going_on.refused_ranks = {2};
  const Tickets members = {1};
  const auto decision = decide(going_on, members, Nodes{node(1, Stage::running, 4), node(3)}, policy(1, 2), {});
  EXPECT_EQ(decision.kind, Kind::refuse);
  EXPECT_THAT(decision.refused, ElementsAre(3));
  NodeView other = node(3);
  other.description.ranks = 2;
  EXPECT_EQ(decide(going_on, members, Nodes{node(1, Stage::running, 4), other}, policy(1, 2), {}).why, "host3 joins");
}

TEST(Decide, RanksStayWhereTheyWere) {
  const Nodes nodes = {node(1, Stage::waiting, 3), node(2, Stage::waiting, 3), lost(node(3, Stage::running, 3)),
                       node(4)};
  EXPECT_THAT(gathering({3, 2, 1}, nodes, policy(1, 4)).members, ElementsAre(2, 1, 4));
}

TEST(Decide, WhoWasSuspendedComesBack) {
  const Nodes nodes = {node(1, Stage::running, 3), node(2, Stage::waiting, 1)};
  EXPECT_EQ(running({1}, nodes, policy(1, 2)).why, "host2 joins");
}

/// Node 2 of round 3 is lost with its ranks, for which the others wait.
struct LostNode {
  Policy rules = [] {
    Policy made = policy(2, 2);
    made.max_replacements = 3;
    made.replace_timeout = 60s;
    return made;
  }();
  NodeView first = node(1, Stage::running, 3);
  NodeView second = [] {
    NodeView view = lost(node(2, Stage::running, 3));
    view.ranks_known = view.ranks_lost = true;
    return view;
  }();
  Nodes others;
  Tickets members = {1, 2};

  Decision decide(Waited waited = {}) const {
    Nodes nodes = {first, second};
    nodes.insert(nodes.end(), others.begin(), others.end());
    return elastic::decide(state(Phase::running, 3), members, nodes, rules, waited);
  }
};

TEST(Decide, AnotherNodeTakesThePlaceOfALostOne) {
  LostNode job;
  job.others = {node(3)};
  const auto decision = job.decide();
  EXPECT_EQ(decision.kind, Kind::replace);
  EXPECT_EQ(decision.lost, 2);
  EXPECT_EQ(decision.taker, 3);
  EXPECT_THAT(decision.why, HasSubstr("host2 was lost: no heartbeat for 5.0 s; host3 takes its place"));
}

TEST(Decide, ALostNodeIsAwaitedWhereTooFewAreLeft) {
  LostNode job;
  EXPECT_EQ(job.decide({.lost = 59s}).kind, Kind::wait);
  EXPECT_TRUE(job.decide({.lost = 59s}).awaits_taker);
  EXPECT_THAT(job.decide().why, HasSubstr("host2 has sent no heartbeat for 5.0 s; the other ranks wait until"));
  EXPECT_EQ(job.decide({.lost = 60s}).kind, Kind::end_round);
  job.rules.min_nodes = 1;
  EXPECT_EQ(job.decide().kind, Kind::end_round);
}

TEST(Decide, ANodeIsNotReplacedWhileItsRanksMayCompute) {
  LostNode job;
  job.second.ranks_lost = false;
  job.others = {node(3)};
  EXPECT_TRUE(job.decide({.lost = 59s}).awaits_taker);
  EXPECT_EQ(job.decide({.lost = 60s}).kind, Kind::end_round);
  job.rules.min_nodes = 1;
  EXPECT_TRUE(job.decide().awaits_taker) << "another node is there for them";
  job.others.clear();
  EXPECT_EQ(job.decide().kind, Kind::end_round) << "those that are left suffice";
}

TEST(Decide, NobodyMissesANodeThatIsLostAtTheEnd) {
  LostNode job;
  job.first.report.stage = Stage::ended;
  job.others = {node(3)};
  EXPECT_EQ(job.decide().kind, Kind::close);
  EXPECT_FALSE(job.decide().failed);
  job.second.alive = true;  // ranks that came too late for the end
  EXPECT_EQ(job.decide().kind, Kind::close);
  job.second.ranks_lost = false;
  EXPECT_EQ(job.decide().kind, Kind::wait);
  job.second.alive = false;
  EXPECT_EQ(job.decide().kind, Kind::end_round);
}

TEST(Decide, ALostNodeIsNotReplacedWhereMemoryDoesNotHelp) {
  LostNode job;
  job.others = {node(3)};
  const auto end_of = [&](auto change) {
    LostNode other = job;
    change(other);
    return other.decide().kind;
  };
  EXPECT_EQ(end_of([](LostNode& j) { j.second.ranks_known = j.second.ranks_lost = false; }), Kind::end_round);
  EXPECT_EQ(end_of([](LostNode& j) { j.members = {2, 1}; }), Kind::end_round) << "with it the job service";
  EXPECT_EQ(end_of([](LostNode& j) { j.rules.max_replacements = 0; }), Kind::end_round);
  EXPECT_EQ(end_of([](LostNode& j) { j.first = failed(1, 3); }), Kind::end_round);
}

TEST(Decide, OnlyANodeThatFitsTakesThePlaceOfALostOne) {
  LostNode job;
  job.others = {node(3)};
  job.others[0].description.ranks = 2;
  EXPECT_TRUE(job.decide().awaits_taker) << "it starts more ranks";
  job.others = {node(3, Stage::waiting, 3)};
  EXPECT_TRUE(job.decide().awaits_taker) << "it was in this round";
  job.others = {node(3)};
  job.rules.ranks_given = true;
  job.second.description.given_rank = 1;
  job.others[0].description.given_rank = 2;
  EXPECT_TRUE(job.decide().awaits_taker) << "it has another number";
  job.others[0].description.given_rank = 1;
  EXPECT_EQ(job.decide().kind, Kind::replace);
}

TEST(Decide, TheJobEndsWithItsStore) {
  NodeView holder = lost(node(1, Stage::left, 3));
  holder.description.runs_service = true;
  holder.report.note = "ended by SIGINT";
  const Nodes nodes = {holder, node(2, Stage::running, 3)};
  for (const auto& decision : {running({1, 2}, nodes, policy(1, 2)), gathering({1, 2}, nodes, policy(1, 2))}) {
    EXPECT_EQ(decision.kind, Kind::close);
    EXPECT_THAT(decision.why, HasSubstr("host1 left (ended by SIGINT), and the job ends with"));
  }
}

TEST(Decide, AClosedJobStaysClosed) {
  EXPECT_EQ(decide(state(Phase::closed, 3), Tickets{1}, Nodes{failed(1, 3)}, policy(1, 1, 5), {}).kind, Kind::wait);
}

}  // namespace
}  // namespace lockstep::cluster::elastic
