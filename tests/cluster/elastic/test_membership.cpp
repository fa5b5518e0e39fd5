// Several agents on one store, ticked by hand: who coordinates, and what they come to agree on.
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/agent_membership.h>
#include <lockstep/cluster/elastic/key_value_store.h>
#include <lockstep/cluster/elastic/rank_ends.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace lockstep::cluster::elastic {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Counts what is asked of it.
class CountingStore final : public KeyValueStore {
 public:
  std::optional<std::string> get(const std::string& key) override { return count(), store_.get(key); }
  void set(const std::string& key, const std::string& value) override { count(), store_.set(key, value); }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return count(), store_.add(key, delta); }
  bool replace(const std::string& key, const std::optional<std::string>& expected, const std::string& value) override {
    return count(), store_.replace(key, expected, value);
  }
  std::string describe() const override { return store_.describe(); }
  int operations() const { return operations_; }

 private:
  void count() { ++operations_; }
  MemoryStore store_;
  int operations_ = 0;
};

/// Agents without ranks, and their clock.
class Job {
 public:
  explicit Job(const Policy& policy) : policy_(policy) {}

  AgentMembership& arrive(int ranks = 1) {
    NodeDescription node;
    node.host = "host" + std::to_string(agents_.size() + 1);
    node.ranks = ranks;
    agents_.emplace_back(store_, "job", node, policy_, Pace{}, true).join(now_);
    return agents_.back();
  }

  /// Time goes on by `time`, in steps of 100 ms; `except` is suspended.
  void pass(std::chrono::milliseconds time, const AgentMembership* except = nullptr) {
    for (auto passed = 0ms; passed < time; passed += 100ms) {
      for (auto& agent : agents_) {
        if (&agent != except) agent.tick(now_);
      }
      now_ += 100ms;
    }
  }

  /// The store does not answer for so long, and all agents wait for it in a tick.
  void store_is_away(std::chrono::milliseconds time) {
    for (auto& agent : agents_) agent.excuse(now_, now_ + time);
    now_ += time;
  }

  NodePlace node_place(const AgentMembership& agent) const {
    return parse_node_place(store_->get(agent.keys().node_place(agent.state(), agent.ticket())).value());
  }
  CountingStore& store() { return *store_; }

 private:
  std::shared_ptr<CountingStore> store_ = std::make_shared<CountingStore>();
  Policy policy_;
  AgentLiveness::Time now_{};
  std::deque<AgentMembership> agents_;
};

Policy policy_of(int least, int most, int restarts = 0) {
  Policy policy;
  policy.min_nodes = least;
  policy.max_nodes = most;
  policy.max_restarts = restarts;
  policy.join_timeout = 60s;
  policy.last_call = 1s;
  return policy;
}

TEST(AgentMembership, TwoAgentsAgreeOnARound) {
  Job job(policy_of(2, 2));
  auto& first = job.arrive(2);
  job.pass(500ms);
  EXPECT_EQ(first.state().phase, Phase::gathering);
  auto& second = job.arrive(3);
  job.pass(500ms);
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->state().phase, Phase::running);
    EXPECT_EQ(agent->state().nodes, 2);
    EXPECT_EQ(agent->state().ranks, 5);
  }
  EXPECT_EQ(job.node_place(second).node, 1);
  EXPECT_EQ(job.node_place(second).first_rank, 2);
}

TEST(AgentMembership, AnotherCoordinatorTakesOver) {
  Job job(policy_of(1, 3));
  auto& first = job.arrive();
  auto& second = job.arrive();
  auto& third = job.arrive();
  job.pass(500ms);
  for (auto* agent : {&first, &second, &third}) agent->say({.stage = Stage::running, .round = 1});
  job.pass(4s, &first);
  EXPECT_EQ(second.state().coordinator, first.ticket());
  job.pass(7s, &first);
  EXPECT_NE(second.state().coordinator, first.ticket());
  EXPECT_EQ(second.state().phase, Phase::gathering);
  EXPECT_THAT(second.state().why, HasSubstr("host1 was lost"));
  for (auto* agent : {&second, &third}) agent->say({.round = 1});
  job.pass(500ms, &first);
  EXPECT_EQ(third.state().round, 2);
  EXPECT_EQ(third.state().nodes, 2);
  EXPECT_EQ(third.state().restarts, 0);

  // Suspended, not dead: it finds that it coordinates no more, and comes back as a node like any other.
  for (auto* agent : {&second, &third}) agent->say({.stage = Stage::running, .round = 2});
  first.say({.round = 1});
  job.pass(1s);
  EXPECT_EQ(first.state().coordinator, second.state().coordinator);
  EXPECT_THAT(third.state().why, HasSubstr("host1 joins"));
}

TEST(AgentMembership, NobodyIsLostForTheSilenceOfTheStore) {
  Job job(policy_of(1, 3));
  auto& first = job.arrive();
  auto& second = job.arrive();
  auto& third = job.arrive();
  job.pass(500ms);
  for (auto* agent : {&first, &second, &third}) agent->say({.stage = Stage::running, .round = 1});
  job.pass(2s);
  job.store_is_away(30s);
  job.pass(4s, &third);
  for (auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->state().phase, Phase::running);
    EXPECT_EQ(agent->state().coordinator, first.ticket());
  }
  // But whoever does not come back with it is.
  job.pass(3s, &third);
  EXPECT_THAT(second.state().why, HasSubstr("host3 was lost"));
}

TEST(AgentMembership, ACoordinatorThatLeavesIsFollowedAtOnce) {
  Job job(policy_of(1, 2));
  auto& first = job.arrive();
  auto& second = job.arrive();
  job.pass(500ms);
  first.say({.stage = Stage::left, .round = 1, .note = "ended by SIGTERM"});
  second.say({.stage = Stage::running, .round = 1});
  job.pass(2500ms);
  EXPECT_EQ(second.state().coordinator, second.ticket());
  EXPECT_EQ(second.state().why, "host1 left (ended by SIGTERM)");
}

TEST(AgentMembership, TheFirstToComeMayDieBeforeItBegins) {
  Job job(policy_of(1, 1));
  const auto& ghost = job.arrive();
  const auto& second = job.arrive();
  job.pass(4s, &ghost);
  EXPECT_EQ(second.state().coordinator, 0);
  job.pass(2s, &ghost);
  EXPECT_EQ(second.state().coordinator, second.ticket());
  EXPECT_EQ(second.state().nodes, 1);
}

NodeEnds ends_of(const std::string& host, int rank, ExitStatus status, int asked) {
  RankEnd end;
  end.rank = rank;
  end.pid = 100 + rank;
  end.status = status;
  end.asked = asked;
  end.last_lines = {"its last \xff words"};
  return {host, "", {end}, 0ms};
}

TEST(AgentMembership, AFailureIsToldToAllAndUsesTheRestartsOfTheJob) {
  Job job(policy_of(2, 2, 1));
  auto& first = job.arrive();
  auto& second = job.arrive();
  job.pass(500ms);
  for (int round = 1; round <= 2; ++round) {
    for (auto* agent : {&first, &second}) agent->say({.stage = Stage::running, .round = round});
    job.pass(300ms);
    auto& failing = round == 1 ? second : first;
    auto& other = round == 1 ? first : second;
    job.store().set(failing.keys().ends(round, failing.ticket()), to_text(ends_of("its host", 7, {3, 0}, 0)));
    failing.say({.round = round, .failed = true});
    job.pass(300ms);
    EXPECT_EQ(other.state().phase, Phase::gathering);
    job.store().set(other.keys().ends(round, other.ticket()), to_text(ends_of("the other", 8, {0, 15}, 15)));
    other.say({.round = round});
    job.pass(300ms);
    EXPECT_EQ(other.state().restarts, 1);
    const auto report = job.store().get(other.keys().report(round)).value_or("");
    EXPECT_THAT(report, HasSubstr("rank 7 (pid 107 on its host) failed first"));
    EXPECT_THAT(report, HasSubstr("words"));
    EXPECT_THAT(report, HasSubstr("rank 8 (pid 108 on the other): signal 15 (SIGTERM), sent by the launcher"));
    EXPECT_THAT(report, HasSubstr(round == 1 ? "restarted: restart 1 of 1" : "1 of 1 restarts were used"));
  }
  for (const auto* agent : {&first, &second}) {
    EXPECT_EQ(agent->state().phase, Phase::closed);
    EXPECT_TRUE(agent->state().failed);
    EXPECT_EQ(agent->state().exit_code, 3);
    EXPECT_EQ(agent->state().first_failed, 7);
  }
  EXPECT_THROW(job.arrive(), Error);
}

TEST(AgentMembership, AJoinerThatDoesNotFitIsRefusedAndTheRestGoOn) {
  Job job(policy_of(1, 2));
  auto& first = job.arrive();
  job.pass(2s);
  first.say({.stage = Stage::running, .round = 1});
  job.pass(300ms);
  auto& second = job.arrive();
  job.pass(300ms);
  EXPECT_THAT(first.state().why, HasSubstr("host2 joins"));
  first.say({.round = 1});
  job.pass(300ms);
  ASSERT_EQ(first.state().round, 2);
  for (auto* agent : {&first, &second}) agent->say({.stage = Stage::running, .round = 2});
  job.pass(300ms);
  auto ends = ends_of("its host", 0, {2, 0}, 0);
  ends.ends[0].note = FailureNote{"the batch does not fit", "config", std::nullopt};
  job.store().set(first.keys().ends(2, first.ticket()), to_text(ends));
  first.say({.round = 2, .failed = true, .fatal = true});
  second.say({.round = 2});
  job.pass(500ms);
  EXPECT_TRUE(is_refused(second.state(), second.ticket()));
  EXPECT_EQ(first.state().phase, Phase::running);
  EXPECT_EQ(first.state().round, 3);
  EXPECT_EQ(first.state().nodes, 1);
  EXPECT_THAT(job.store().get(first.keys().report(2)).value_or(""), HasSubstr("the batch does not fit"));
  first.say({.stage = Stage::running, .round = 3});
  second.say({.stage = Stage::left, .round = 2, .note = "it was refused"});
  job.pass(300ms);
  // Whoever comes then would make it as many ranks.
  const auto& third = job.arrive();
  job.pass(500ms);
  EXPECT_TRUE(is_refused(third.state(), third.ticket()));
  EXPECT_EQ(first.state().round, 3);
  EXPECT_EQ(first.state().phase, Phase::running);
}

TEST(AgentMembership, WhatDiesTwiceAtTheSameStepIsNotStartedAThirdTime) {
  Job job(policy_of(1, 1, 9));
  auto& agent = job.arrive();
  job.pass(500ms);
  for (int round = 1; round <= 3; ++round) {
    ASSERT_EQ(agent.state().round, round);
    agent.say({.stage = Stage::running, .round = round});
    job.pass(300ms);
    auto ends = ends_of("its host", 0, {0, 9}, 0);
    ends.ends[0].cause = "the kernel killed it for lack of memory (limit 512 MiB, peak 512 MiB)";
    ends.ends[0].progress = RankProgress{};
    ends.ends[0].progress->step = round == 1 ? 3 : 7;
    job.store().set(agent.keys().ends(round, agent.ticket()), to_text(ends));
    agent.say({.round = round, .failed = true});
    job.pass(500ms);
  }
  EXPECT_EQ(agent.state().phase, Phase::closed);
  EXPECT_EQ(agent.state().restarts, 2);
  const auto report = job.store().get(agent.keys().report(3)).value_or("");
  EXPECT_THAT(report, HasSubstr("reason: the kernel killed it for lack of memory (limit 512 MiB, peak 512 MiB)"));
  EXPECT_THAT(report, HasSubstr("2 of 9 restarts were used, because the ranks died twice in the same way"));
}

TEST(AgentMembership, AnotherNodeTakesThePlaceOfALostOneInTheSameRound) {
  auto policy = policy_of(2, 2);
  policy.max_replacements = 1;
  Job job(policy);
  auto& first = job.arrive(2);
  auto& second = job.arrive(2);
  job.pass(400ms);
  ASSERT_EQ(first.state().round, 1);
  for (auto* agent : {&first, &second}) agent->say({.stage = Stage::running, .round = 1});
  job.store().set(first.keys().rendezvous(first.state()), "where they meet");
  auto& third = job.arrive(2);
  job.pass(1s);
  job.store().set(first.keys().service_log(1), "lost_ranks []\nlost_ranks [2,3]\n");
  job.pass(7s, &second);
  EXPECT_EQ(third.state().phase, Phase::running);
  EXPECT_EQ(third.state().round, 1);
  EXPECT_TRUE(is_replaced(third.state(), second.ticket()));
  EXPECT_EQ(job.node_place(third).node, 1);
  EXPECT_EQ(job.node_place(third).first_rank, 2);
  EXPECT_EQ(job.store().get(third.keys().rendezvous(third.state())), "where they meet");
  EXPECT_EQ(job.store().add(third.keys().replaced(), 0), 1);
  third.say({.stage = Stage::running, .round = 1});
  job.store().set(first.keys().service_log(1), "lost_ranks []\nlost_ranks [2,3]\nlost_ranks []\n");
  job.pass(7s, &second);
  for (auto* agent : {&first, &third}) agent->say({.stage = Stage::ended, .round = 1});
  job.pass(1s, &second);
  EXPECT_EQ(first.state().phase, Phase::closed);
  EXPECT_FALSE(first.state().failed);
}

TEST(AgentMembership, ANodeIsNotReplacedWhenNoReplacementIsLeft) {
  auto policy = policy_of(2, 2);
  policy.max_replacements = 1;
  Job job(policy);
  auto& first = job.arrive(2);
  auto& second = job.arrive(2);
  job.pass(400ms);
  for (auto* agent : {&first, &second}) agent->say({.stage = Stage::running, .round = 1});
  EXPECT_TRUE(take_replacement(job.store(), first.keys(), 0, 1)) << "by a rank";
  EXPECT_FALSE(take_replacement(job.store(), first.keys(), 0, 1));
  auto& third = job.arrive(2);
  job.store().set(first.keys().service_log(1), "lost_ranks []\nlost_ranks [2,3]\n");
  job.pass(8s, &second);
  EXPECT_EQ(third.state().phase, Phase::gathering);
  EXPECT_THAT(third.state().why, HasSubstr("host2 was lost"));
  EXPECT_EQ(job.store().add(first.keys().replaced(), 0), 1);
}

TEST(AgentMembership, ManyAgentsMeetAtACostThatGrowsWithTheirNumber) {
  const auto cost = [](int nodes) {
    Job job(policy_of(nodes, nodes));
    std::vector<AgentMembership*> agents;
    for (int i = 0; i < nodes; ++i) agents.push_back(&job.arrive());
    job.pass(400ms);
    for (const auto* agent : agents) EXPECT_EQ(agent->state().phase, Phase::running);
    EXPECT_EQ(job.node_place(*agents.back()).node, nodes - 1);
    return job.store().operations();
  };
  const int few = cost(100);
  const int many = cost(2000);
  EXPECT_LE(many, few * 20 + few);
  EXPECT_LE(many, 30 * 2000);
}

TEST(AgentMembership, SaysWhenTheStoreHoldsSomethingElse) {
  Job job(policy_of(1, 1));
  auto& agent = job.arrive();
  job.store().set(agent.keys().state(), "{\"phase\": 5}");
  try {
    job.pass(100ms);
    FAIL() << "took it";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("where the state of a job should be"));
    EXPECT_THAT(error.what(), HasSubstr("--rdzv_id"));
  }
}

}  // namespace
}  // namespace lockstep::cluster::elastic
