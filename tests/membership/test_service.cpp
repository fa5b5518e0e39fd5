// The service as a state machine: cases that simulated lives (tests/simulation/) and reviews found, each as a short
// script.
#include <lockstep/membership/service/service.h>
#include <lockstep/membership/service/state_writer.h>
#include <lockstep/membership/session/session.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::membership {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A service with a clock that the test moves.
class Script {
 public:
  explicit Script(int workers, const std::optional<std::string>& saved = std::nullopt) {
    JobOptions options;
    options.workers = workers;
    options.recovery = true;
    state = begin_service(options, saved, now, [this] { return token(); });
  }

  std::vector<ServiceOutput> give(const ServiceInput& input) {
    return step(state, input, now, [this] { return token(); });
  }
  /// A process registers on a new connection.
  std::vector<ServiceOutput> enter(ConnectionId id, const Register& request) {
    give(Opened{id, "10.0.0.1:4000"});
    return give(Received{id, request});
  }
  void tick(milliseconds time) {
    for (const auto end = now + time; now < end;) {
      now += seconds(1);
      give(Tick{});
    }
  }

  static Register process(const std::string& node_id, const std::string& life, bool named = true) {
    Register request;
    request.node_id = node_id;
    request.life = life;
    request.named = named;
    request.host = request.machine = "here";
    request.pid = 1;
    return request;
  }
  /// The process of `enter` with its place in the first generation.
  Register again(const std::string& node_id, const std::string& life, int rank) const {
    auto request = process(node_id, life);
    request.job = state.membership.job;
    request.generation = 1;
    request.rank = rank;
    return request;
  }

  Time now{std::chrono::hours(1)};
  ServiceState state;

 private:
  std::string token() { return std::to_string(++tokens_); }
  int tokens_ = 0;
};

template <typename Message>
std::vector<Message> sent(const std::vector<ServiceOutput>& outputs, ConnectionId to) {
  std::vector<Message> found;
  for (const auto& output : outputs) {
    const auto* send = std::get_if<Send>(&output);
    if (send == nullptr || send->connection != to) continue;
    if (const auto* message = std::get_if<Message>(&send->message)) found.push_back(*message);
  }
  return found;
}

/// The ends that the connection 2 gets within that time, in which these connections send heartbeats.
std::vector<Ended> ends_after(Script& script, int time, const std::vector<ConnectionId>& alive) {
  std::vector<Ended> ends;
  for (int second = 0; second < time; ++second) {
    for (const auto id : alive) script.give(Received{id, Heartbeat{}});
    script.now += seconds(1);
    for (auto& end : sent<Ended>(script.give(Tick{}), 2)) ends.push_back(end);
  }
  return ends;
}

TEST(Service, AProcessThatWaitsForADecisionMaySendHeartbeats) {
  Script script(1);
  script.enter(1, Script::process("w0", "first"));
  const auto outputs = script.enter(2, Script::process("w0", "second"));
  EXPECT_EQ(sent<Wait>(outputs, 2).size(), 1U);
  EXPECT_TRUE(script.give(Received{2, Heartbeat{}}).empty());
}

TEST(Service, ALostWorkerOfAnEarlierServiceIsReplacedByAProcessWithARandomId) {
  Script before(1);
  before.enter(1, Script::process("x1", "first", false));
  Script script(1, print_state(before.state.membership));
  script.enter(1, Script::process("x2", "second", false));
  ends_after(script, 29, {1});
  EXPECT_EQ(script.state.membership.generation, 1);
  ends_after(script, 3, {1});
  EXPECT_EQ(script.state.membership.generation, 2);
  EXPECT_EQ(script.state.membership.members.front().rank, 0);
}

TEST(Service, AProcessThatDiedWhileItWaitedForAPlaceGetsNone) {
  Script script(1);
  script.enter(1, Script::process("w0", "first"));
  script.enter(2, Script::process("w0", "second"));
  script.enter(3, Script::process("w0", "third"));
  ends_after(script, 32, {3});
  EXPECT_EQ(script.state.membership.generation, 2);
  EXPECT_EQ(script.state.membership.members.front().life, "third");
}

TEST(Service, AWorkerThatHangsIsNoticedByALaterService) {
  Script before(2);
  before.enter(1, Script::process("w0", "first"));
  before.enter(2, Script::process("w1", "second"));
  before.give(Received{1, Again{1, "the others are away"}});
  Script script(2, print_state(before.state.membership));
  script.enter(1, script.again("w0", "first", 0));
  script.enter(2, script.again("w1", "second", 1));
  const auto ends = ends_after(script, 150, {1, 2});
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_FALSE(ends.front().ok);
}

TEST(Service, AWorkerOfAnEarlierGenerationHasToLeaveIt) {
  Script before(2);
  before.enter(1, Script::process("w0", "first"));
  before.enter(2, Script::process("w1", "second"));
  Script script(2, print_state(before.state.membership));
  auto newer = script.again("w1", "second", 1);
  newer.generation = 2;
  newer.store_key = "key";
  script.enter(1, newer);
  const auto losses = sent<Lost>(script.enter(2, script.again("w0", "first", 0)), 2);
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses.front().generation, 1);
  EXPECT_TRUE(losses.front().certain);
  EXPECT_TRUE(script.give(Received{2, StoreAt{1, "here", 4000}}).empty()) << "the store of no generation";
  EXPECT_TRUE(script.state.membership.store_host.empty());
}

// A service that could not save generation 1 gave its place to one worker only.
TEST(Service, AnUnsavedGenerationThatNotAllGotIsOver) {
  Script before(2);
  before.enter(1, Script::process("w0", "first"));
  Script script(2, print_state(before.state.membership));
  auto newer = script.again("w1", "second", 1);
  newer.store_key = "key";
  EXPECT_TRUE(sent<Lost>(script.enter(1, newer), 1).empty()) << "the other one may be in generation 1 as well";
  EXPECT_EQ(sent<Lost>(script.enter(2, Script::process("w0", "first")), 1).size(), 1U);

  Script other_order(2, print_state(before.state.membership));
  other_order.enter(1, Script::process("w0", "first"));
  EXPECT_EQ(sent<Lost>(other_order.enter(2, newer), 2).size(), 1U);
}

// Two services, one after the other, each formed a generation 1 and could not save it.
TEST(Service, AWorkerOfAnotherGenerationWithTheSameNumberWaitsForTheNext) {
  Script before(2);
  before.enter(1, Script::process("w0", "first"));
  Script script(2, print_state(before.state.membership));
  auto one = script.again("w1", "second", 1);
  one.store_key = "key";
  auto other = script.again("w0", "first", 0);
  other.store_key = "another key";
  script.enter(1, one);
  const auto outputs = script.enter(2, other);
  EXPECT_TRUE(sent<RankAssignment>(outputs, 2).empty());
  EXPECT_EQ(sent<Wait>(outputs, 2).size(), 1U);
  EXPECT_EQ(sent<Lost>(outputs, 1).size(), 1U);
}

TEST(Service, TheReportOfAWorkersEndIsConfirmed) {
  Script script(2);
  script.enter(1, Script::process("w0", "first"));
  script.enter(2, Script::process("w1", "second"));
  EXPECT_THAT(sent<Ended>(script.give(Received{1, Leave{true, ""}}), 1), testing::ElementsAre(Ended{true, ""}));
  EXPECT_THAT(sent<Ended>(script.give(Received{2, Leave{false, "why"}}), 2), testing::ElementsAre(Ended{false, "why"}));
}

TEST(Service, ANewConnectionMayBeOfTheNextJob) {
  for (const bool follow : {true, false}) {
    Script script(1);
    script.state.options.programs_follow = script.state.membership.programs_follow = follow;
    script.enter(1, Script::process("0", "first"));
    script.give(Opened{2, "10.0.0.1:4001"});
    script.give(Received{1, Leave{true, ""}});
    script.now += seconds(1);
    EXPECT_EQ(sent<Ended>(script.give(Tick{}), 2).empty(), follow);
  }
}

TEST(Service, AWorkerIsEndedAsHangingOnlyIfItsGenerationIsOver) {
  Script script(2);
  script.enter(1, Script::process("w0", "first"));
  script.enter(2, Script::process("w1", "second"));
  script.give(Closed{1, "its connection was reset", false});
  EXPECT_TRUE(ends_after(script, 300, {2}).empty());  // it may compute with the other one
  script.enter(3, Script::process("w0", "third"));
  EXPECT_TRUE(ends_after(script, 100, {2}).empty());
  const auto ends = ends_after(script, 30, {2});
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_TRUE(ends.front().hangs);
}

TEST(Service, OneThatRequestsTheNextGenerationDoesNotHang) {
  Script script(2);
  script.enter(1, Script::process("w0", "first"));
  script.enter(2, Script::process("w1", "second"));
  script.give(Received{1, Again{1, "w1 is slow"}});
  script.state.peers.at(2).expelled = script.now;
  const auto outputs = script.give(Received{2, Again{1, "w0 is lost"}});
  EXPECT_FALSE(script.state.peers.at(2).expelled);
  EXPECT_TRUE(std::ranges::any_of(outputs, [](const auto& one) { return std::holds_alternative<ProcessBack>(one); }));
}

TEST(Session, ALaterGenerationOrAWaitBreaksThePresentOne) {
  const auto assigned = [](std::int64_t generation) {
    RankAssignment assignment;
    assignment.generation = generation;
    assignment.size = 2;
    return FromScheduler(assignment);
  };
  for (const FromScheduler& message : {FromScheduler(Wait{1, 2, ""}), assigned(2)}) {
    SessionState session;
    step(session, FromScheduler(Hello{kProtocol, "job", "nonce", false}));
    step(session, FromScheduler(Wait{1, 2, ""}));
    EXPECT_FALSE(session.broken);
    step(session, assigned(1));
    const auto outputs = step(session, message);
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_TRUE(std::holds_alternative<GenerationBroken>(outputs.front()));
    EXPECT_TRUE(loss_in(session, 1));
  }
}

TEST(Service, AReturningWorkerOfAnyJobGetsOneLoss) {
  constexpr int kWorkers = 600;
  Script script(kWorkers);
  for (int i = 0; i < kWorkers; ++i) {
    script.enter(static_cast<ConnectionId>(i + 1),
                 Script::process("w" + std::to_string(i), "life" + std::to_string(i)));
  }
  ASSERT_EQ(script.state.membership.generation, 1);
  script.give(Closed{1, "its connection was reset", false});
  for (int i = 2; i < kWorkers; ++i) {
    script.give(Received{static_cast<ConnectionId>(i + 1), Again{1, "w1 is lost"}});
  }
  const auto outputs = script.enter(5000, script.again("w0", "life0", 0));
  EXPECT_EQ(sent<RankAssignment>(outputs, 5000).size(), 1U);
  const auto losses = sent<Lost>(outputs, 5000);
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_TRUE(losses.front().certain);
}

TEST(Service, AWorkerThatReturnsFirstToAnOlderStateHasLostNobody) {
  Script before(2);
  before.enter(1, Script::process("w0", "first"));
  before.enter(2, Script::process("w1", "second"));
  before.give(Received{1, Again{1, "a cut"}});
  Script script(2, print_state(before.state.membership));  // it does not have generation 2, which both are in
  auto returns = script.again("w1", "second", 1);
  returns.generation = 2;
  returns.store_key = "key of 2";
  const auto outputs = script.enter(1, returns);
  EXPECT_TRUE(sent<Lost>(outputs, 1).empty());
  const auto assignments = sent<RankAssignment>(outputs, 1);
  ASSERT_EQ(assignments.size(), 1U);
  EXPECT_EQ(assignments.front().store_key, "key of 2");
}

}  // namespace
}  // namespace lockstep::membership
