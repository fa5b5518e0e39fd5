// The service of launchers and their sessions, message by message: who belongs to a job, and what they are shown.
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/node_service.h>
#include <lockstep/cluster/elastic/node_session.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace lockstep::cluster::elastic {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

/// A launcher without ranks.
struct Launcher {
  NodeSession session;
  ConnectionId connection = 0;
  std::chrono::milliseconds since_beat{0};

  const JobState& state() const { return session.view->job; }
  const JobView& view() const { return *session.view; }
  Ticket ticket() const { return session.ticket; }
};

/// Launchers, their service, and the clock of both. Messages take no time.
class Job {
 public:
  explicit Job(const Policy& policy, std::string secret = "") : policy_(policy) {
    service_.secret = std::move(secret);
    service_.stepped = now_;
  }

  Launcher& arrive(int ranks = 1, const std::string& secret = "") {
    Launcher& launcher = launchers_.emplace_back();
    const auto number = std::to_string(launchers_.size());
    launcher.session.facts = {
        "job", {"host" + number, ranks, false, std::nullopt}, policy_, "life" + number, "nonce" + number, secret};
    connect(launcher);
    return launcher;
  }

  void connect(Launcher& launcher) {
    launcher.connection = ++connections_;
    at_service(membership::Opened{launcher.connection, "10.0.0.1:1"});
  }

  void disconnect(Launcher& launcher) {
    at_service(membership::Closed{std::exchange(launcher.connection, 0), "it is gone"});
    step(launcher.session, NodeDisconnected{});
  }

  void say(Launcher& launcher, const NodeSessionInput& what) { at_launcher(launcher, what); }

  /// Time goes on by `time`, in steps of 100 ms; `except` is suspended.
  void pass(std::chrono::milliseconds time, const Launcher* except = nullptr) {
    for (auto passed = 0ms; passed < time; passed += 100ms) {
      for (auto& launcher : launchers_) {
        if (&launcher == except || (launcher.since_beat += 100ms) < 1s) continue;
        launcher.since_beat = 0ms;
        at_launcher(launcher, NodeBeat{});
      }
      at_service(membership::Tick{});
      now_ += 100ms;
    }
  }

  /// The service makes no step for so long.
  void stand_still(std::chrono::milliseconds time) { now_ += time; }

  /// Another service continues with what was saved last.
  void take_over() {
    NodeServiceState next;
    next.secret = service_.secret;
    next.stepped = now_;
    next.jobs["job"] = read_job(saved_, now_);
    EXPECT_EQ(print_job(next.jobs["job"]), saved_);
    service_ = std::move(next);
    for (auto& launcher : launchers_) {
      if (launcher.connection == 0) continue;
      step(launcher.session, NodeDisconnected{});
      connect(launcher);
    }
  }

  const NodeJob& job() const { return service_.jobs.at("job"); }
  const NodeServiceState& service() const { return service_; }
  int messages() const { return messages_; }
  const std::string& refusal() const { return refusal_; }

 private:
  void at_service(const NodeServiceInput& input) {
    const auto token = [this] { return "token" + std::to_string(++tokens_); };
    for (const auto& output : step(service_, input, now_, token)) {
      if (const auto* save = std::get_if<SaveJob>(&output)) saved_ = print_job(service_.jobs.at(save->name));
      if (const auto* refused = std::get_if<membership::Refusal>(&output)) refusal_ = refused->reason;
      if (const auto* send = std::get_if<SendToNode>(&output)) to_launchers_.push_back(*send);
    }
    deliver();
  }

  void at_launcher(Launcher& launcher, const NodeSessionInput& input) {
    for (auto& message : step(launcher.session, input))
      to_service_.push_back({launcher.connection, std::move(message)});
    deliver();
  }

  /// In their order, as over connections.
  void deliver() {
    if (std::exchange(delivering_, true)) return;
    const auto done = [this](void*) { delivering_ = false; };
    const std::unique_ptr<void, decltype(done)> guard(this, done);
    while (!to_launchers_.empty() || !to_service_.empty()) {
      ++messages_;
      if (!to_service_.empty()) {
        const auto next = std::move(to_service_.front());
        to_service_.pop_front();
        at_service(NodeReceived{next.connection, parse_from_node(print(next.message))});
        continue;
      }
      const auto next = std::move(to_launchers_.front());
      to_launchers_.pop_front();
      for (auto& launcher : launchers_) {
        if (launcher.connection == next.connection) at_launcher(launcher, parse_from_node_service(print(next.message)));
      }
    }
  }

  Policy policy_;
  Time now_{};
  NodeServiceState service_;
  std::deque<Launcher> launchers_;
  ConnectionId connections_ = 0;
  std::deque<SendToNode> to_launchers_;
  std::deque<NodeReceived> to_service_;
  bool delivering_ = false;
  int tokens_ = 0;
  int messages_ = 0;
  std::string saved_;
  std::string refusal_;
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

TEST(NodeService, TwoAgentsAgreeOnARound) {
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
  EXPECT_EQ(second.view().place->node, 1);
  EXPECT_EQ(second.view().place->first_rank, 2);
}

TEST(NodeService, ALostNodeEndsTheRoundAndComesBackAsAnyOther) {
  Job job(policy_of(1, 3));
  auto& first = job.arrive();
  auto& second = job.arrive();
  auto& third = job.arrive();
  job.pass(500ms);
  for (auto* agent : {&first, &second, &third}) job.say(*agent, NodeReport{.stage = Stage::running, .round = 1});
  job.pass(4s, &first);
  EXPECT_EQ(second.state().phase, Phase::running);
  job.pass(2s, &first);
  EXPECT_EQ(second.state().phase, Phase::gathering);
  EXPECT_THAT(second.state().why, HasSubstr("host1 was lost"));
  for (auto* agent : {&second, &third}) job.say(*agent, NodeReport{.round = 1});
  job.pass(500ms, &first);
  EXPECT_EQ(third.state().round, 2);
  EXPECT_EQ(third.state().nodes, 2);
  EXPECT_EQ(third.state().restarts, 0);
  EXPECT_FALSE(first.view().place);
  for (auto* agent : {&second, &third}) job.say(*agent, NodeReport{.stage = Stage::running, .round = 2});
  job.say(first, NodeReport{.round = 1});
  job.pass(1s);
  EXPECT_THAT(third.state().why, HasSubstr("host1 joins"));
}

TEST(NodeService, NobodyIsLostWhileTheServiceStoodStill) {
  Job job(policy_of(1, 3));
  auto& first = job.arrive();
  auto& second = job.arrive();
  auto& third = job.arrive();
  job.pass(500ms);
  for (auto* agent : {&first, &second, &third}) job.say(*agent, NodeReport{.stage = Stage::running, .round = 1});
  job.pass(2s);
  job.stand_still(30s);
  job.pass(4s, &third);
  EXPECT_EQ(second.state().phase, Phase::running);
  // But whoever does not come back with it is.
  job.pass(3s, &third);
  EXPECT_THAT(second.state().why, HasSubstr("host3 was lost"));
}

TEST(NodeService, NobodyIsForgottenWhileTheServiceStoodStill) {
  Job job(policy_of(2, 2));
  auto& first = job.arrive();
  job.disconnect(first);
  job.pass(6s, &first);
  job.stand_still(100s);
  job.pass(1s, &first);
  EXPECT_EQ(job.job().nodes.size(), 1U);
  job.pass(60s, &first);
  EXPECT_TRUE(job.job().nodes.empty());
}

TEST(NodeService, AnotherServiceGoesOnWithWhatWasSaved) {
  auto policy = policy_of(2, 2, 3);
  policy.max_replacements = 3;
  Job job(policy);
  auto& first = job.arrive(2);
  auto& second = job.arrive(2);
  job.pass(500ms);
  job.say(first, RanksMeet{1, Place{"here", 7}});
  for (auto* agent : {&first, &second}) job.say(*agent, NodeReport{.stage = Stage::running, .round = 1});
  job.say(second, NodeWish{});
  EXPECT_TRUE(second.session.answer.granted);
  job.take_over();
  job.pass(4s);
  EXPECT_EQ(first.state().phase, Phase::running);
  EXPECT_EQ(second.ticket(), 2);
  EXPECT_EQ(second.view().meeting, (Place{"here", 7}));
  EXPECT_EQ(job.job().replaced, 1);
  // A launcher that does not find the other service is lost.
  job.disconnect(second);
  job.pass(6s);
  EXPECT_THAT(first.state().why, HasSubstr("host2 was lost"));
}

TEST(NodeService, AWishIsAnsweredOnceThoughItArrivesTwice) {
  auto policy = policy_of(1, 1, 1);
  policy.max_replacements = 1;
  Job job(policy);
  auto& first = job.arrive();
  job.disconnect(first);
  job.say(first, NodeWish{});
  EXPECT_FALSE(is_answered(first.session));
  job.connect(first);
  EXPECT_TRUE(first.session.answer.granted);
  job.take_over();
  EXPECT_EQ(job.job().replaced, 1);
  job.say(first, NodeWish{});
  EXPECT_EQ(first.session.answer.number, 2);
  EXPECT_FALSE(first.session.answer.granted);
}

TEST(NodeService, ANodeThatLeavesIsConfirmedAndTheOthersGoOn) {
  Job job(policy_of(1, 2));
  auto& first = job.arrive();
  auto& second = job.arrive();
  job.pass(500ms);
  job.say(second, NodeReport{.stage = Stage::running, .round = 1});
  job.say(first, NodeReport{.stage = Stage::left, .round = 1, .note = "ended by SIGTERM"});
  EXPECT_TRUE(first.session.said_goodbye);
  EXPECT_EQ(second.state().why, "host1 left (ended by SIGTERM)");
  EXPECT_EQ(count_users(job.service(), Time{} + 500ms), 1);
}

TEST(NodeService, RefusesWhoHasNoSecretOrAnotherOne) {
  Job job(policy_of(1, 1), "open sesame");
  const auto& stranger = job.arrive();
  EXPECT_THAT(stranger.session.over->reason, HasSubstr("it requires a secret"));
  const auto& other = job.arrive(1, "open barley");
  EXPECT_THAT(other.session.over->reason, HasSubstr("its secret differs"));
  EXPECT_THAT(job.refusal(), HasSubstr("its secret differs"));
  const auto& member = job.arrive(1, "open sesame");
  EXPECT_EQ(member.ticket(), 1);
  Job open(policy_of(1, 1));
  EXPECT_THAT(open.arrive(1, "open sesame").session.over->reason, HasSubstr("it has no secret"));
}

TEST(NodeService, RefusesWhoJoinedAnotherService) {
  Job job(policy_of(1, 2));
  auto& first = job.arrive();
  job.disconnect(first);
  first.session.service = "another";
  job.connect(first);
  ASSERT_TRUE(first.session.over);
  EXPECT_TRUE(first.session.over->again);
}

TEST(NodeService, MessagesThatAreNotAllowedChangeNothing) {
  Job job(policy_of(1, 1));
  auto& first = job.arrive();
  job.pass(500ms);
  const auto before = print_job(job.job());
  EXPECT_THROW(job.say(first, NodeGreeting{kNodeProtocol, "x", false}), Error) << "a second hello";
  for (const char* text : {"", "{", "[]", "{}", R"({"type":"hello"})", R"({"type":"report","stage":"running"})",
                           R"({"type":"ended","round":1,"ends":{}})",
                           R"({"type":"lost","round":1,"losses":{"processes":[[1]],"completed":0}})",
                           R"({"type":"wish","number":1e99})", R"({"type":"goodbye"})"}) {
    EXPECT_THROW(parse_from_node(text), Error) << text;
  }
  EXPECT_EQ(print_job(job.job()), before);
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

TEST(NodeService, AFailureIsToldToAllAndUsesTheRestartsOfTheJob) {
  Job job(policy_of(2, 2, 1));
  auto& first = job.arrive();
  auto& second = job.arrive();
  job.pass(500ms);
  for (int round = 1; round <= 2; ++round) {
    for (auto* agent : {&first, &second}) job.say(*agent, NodeReport{.stage = Stage::running, .round = round});
    job.pass(300ms);
    auto& failing = round == 1 ? second : first;
    auto& other = round == 1 ? first : second;
    job.say(failing, RanksEnded{round, ends_of("its host", 7, {3, 0}, 0)});
    job.say(failing, NodeReport{.round = round, .failed = true});
    job.pass(300ms);
    EXPECT_EQ(other.state().phase, Phase::gathering);
    job.say(other, RanksEnded{round, ends_of("the other", 8, {0, 15}, 15)});
    job.say(other, NodeReport{.round = round});
    job.pass(300ms);
    EXPECT_EQ(other.state().restarts, 1);
    const auto& report = other.view().report;
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
  EXPECT_THAT(job.arrive().session.over->reason, HasSubstr("has already ended"));
}

TEST(NodeService, AJoinerThatDoesNotFitIsRefusedAndTheRestGoOn) {
  Job job(policy_of(1, 2));
  auto& first = job.arrive();
  job.pass(2s);
  job.say(first, NodeReport{.stage = Stage::running, .round = 1});
  job.pass(300ms);
  auto& second = job.arrive();
  job.pass(300ms);
  EXPECT_THAT(first.state().why, HasSubstr("host2 joins"));
  job.say(first, NodeReport{.round = 1});
  job.pass(300ms);
  ASSERT_EQ(first.state().round, 2);
  for (auto* agent : {&first, &second}) job.say(*agent, NodeReport{.stage = Stage::running, .round = 2});
  job.pass(300ms);
  auto ends = ends_of("its host", 0, {2, 0}, 0);
  ends.ends[0].note = FailureNote{"the batch does not fit", "config", std::nullopt};
  job.say(first, RanksEnded{2, ends});
  job.say(first, NodeReport{.round = 2, .failed = true, .fatal = true});
  job.say(second, NodeReport{.round = 2});
  job.pass(500ms);
  EXPECT_TRUE(second.view().refused);
  EXPECT_EQ(first.state().phase, Phase::running);
  EXPECT_EQ(first.state().round, 3);
  EXPECT_EQ(first.state().nodes, 1);
  EXPECT_THAT(second.view().report, HasSubstr("the batch does not fit"));
  job.say(first, NodeReport{.stage = Stage::running, .round = 3});
  job.say(second, NodeReport{.stage = Stage::left, .round = 2, .note = "it was refused"});
  job.pass(300ms);
  // Whoever comes then would make it as many ranks.
  const auto& third = job.arrive();
  job.pass(500ms);
  EXPECT_TRUE(third.view().refused);
  EXPECT_EQ(first.state().round, 3);
  EXPECT_EQ(first.state().phase, Phase::running);
}

TEST(NodeService, WhatDiesTwiceAtTheSameStepIsNotStartedAThirdTime) {
  Job job(policy_of(1, 1, 9));
  auto& agent = job.arrive();
  job.pass(500ms);
  for (int round = 1; round <= 3; ++round) {
    ASSERT_EQ(agent.state().round, round);
    job.say(agent, NodeReport{.stage = Stage::running, .round = round});
    job.pass(300ms);
    auto ends = ends_of("its host", 0, {0, 9}, 0);
    ends.ends[0].cause = "the kernel killed it for lack of memory (limit 512 MiB, peak 512 MiB)";
    ends.ends[0].progress = RankProgress{};
    ends.ends[0].progress->step = round == 1 ? 3 : 7;
    job.say(agent, RanksEnded{round, ends});
    job.say(agent, NodeReport{.round = round, .failed = true});
    job.pass(500ms);
  }
  EXPECT_EQ(agent.state().phase, Phase::closed);
  EXPECT_EQ(agent.state().restarts, 2);
  const auto& report = agent.view().report;
  EXPECT_THAT(report, HasSubstr("reason: the kernel killed it for lack of memory (limit 512 MiB, peak 512 MiB)"));
  EXPECT_THAT(report, HasSubstr("2 of 9 restarts were used, because the ranks died twice in the same way"));
}

TEST(NodeService, AnotherNodeTakesThePlaceOfALostOneInTheSameRound) {
  auto policy = policy_of(2, 2);
  policy.max_replacements = 1;
  Job job(policy);
  auto& first = job.arrive(2);
  auto& second = job.arrive(2);
  job.pass(400ms);
  ASSERT_EQ(first.state().round, 1);
  for (auto* agent : {&first, &second}) job.say(*agent, NodeReport{.stage = Stage::running, .round = 1});
  job.say(first, RanksMeet{1, Place{"where they meet", 1}});
  auto& third = job.arrive(2);
  job.pass(1s);
  job.say(first, RanksLost{1, {.ranks = {{2, 3}}}});
  job.pass(7s, &second);
  EXPECT_EQ(third.state().phase, Phase::running);
  EXPECT_EQ(third.state().round, 1);
  EXPECT_TRUE(is_replaced(third.state(), second.ticket()) && second.view().replaced);
  EXPECT_EQ(third.view().place->node, 1);
  EXPECT_EQ(third.view().place->first_rank, 2);
  EXPECT_EQ(third.view().meeting, (Place{"where they meet", 1}));
  EXPECT_EQ(job.job().replaced, 1);
  job.say(third, NodeReport{.stage = Stage::running, .round = 1});
  job.say(first, RanksLost{1, {.ranks = std::vector<int>()}});
  job.pass(7s, &second);
  for (auto* agent : {&first, &third}) job.say(*agent, NodeReport{.stage = Stage::ended, .round = 1});
  job.pass(1s, &second);
  EXPECT_EQ(first.state().phase, Phase::closed);
  EXPECT_FALSE(first.state().failed);
}

TEST(NodeService, ANodeIsNotReplacedWhenNoReplacementIsLeft) {
  auto policy = policy_of(2, 2);
  policy.max_replacements = 1;
  Job job(policy);
  auto& first = job.arrive(2);
  auto& second = job.arrive(2);
  job.pass(400ms);
  for (auto* agent : {&first, &second}) job.say(*agent, NodeReport{.stage = Stage::running, .round = 1});
  job.say(first, NodeWish{});
  EXPECT_TRUE(first.session.answer.granted) << "by a rank";
  auto& third = job.arrive(2);
  job.say(first, RanksLost{1, {.ranks = {{2, 3}}}});
  job.pass(8s, &second);
  EXPECT_EQ(third.state().phase, Phase::gathering);
  EXPECT_THAT(third.state().why, HasSubstr("host2 was lost"));
  EXPECT_EQ(job.job().replaced, 1);
}

TEST(NodeService, ManyLaunchersMeetWithMessagesInProportion) {
  const auto cost = [](int nodes) {
    Job job(policy_of(nodes, nodes));
    std::vector<Launcher*> launchers;
    for (int i = 0; i < nodes; ++i) launchers.push_back(&job.arrive());
    job.pass(400ms);
    for (const auto* launcher : launchers) EXPECT_EQ(launcher->state().phase, Phase::running);
    EXPECT_EQ(launchers.back()->view().place->node, nodes - 1);
    return job.messages();
  };
  EXPECT_LE(cost(400), 10 * 400);
}

}  // namespace
}  // namespace lockstep::cluster::elastic
