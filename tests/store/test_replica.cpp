// One copy of a store, asked by hand and with a clock of the test's: what is answered when.
#include <lockstep/store/replica.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::store {
namespace {

using namespace std::chrono_literals;
using Time = Replica::Time;

constexpr auto kLease = 4s;

/// A replica with its connections, of which each has one request at a time.
struct Process {
  Replica replica{kLease};
  Address own;
  std::uint64_t number = 0;

  explicit Process(std::uint16_t port) : own{"host", port} {}

  std::string id(Time now) const { return replica.standing(now).id; }
  std::vector<Answer> request(std::uint64_t connection, Operation operation, const MessageWriter& fields, Time now) {
    const auto message =
        MessageWriter().number(++number).number(static_cast<std::uint64_t>(operation)).append(fields).message();
    return replica.request(connection, *first_body(message), now);
  }
};

std::pair<Status, std::string> parse(const Answer& answer) {
  MessageReader reader(*first_body(answer.message));
  reader.number();
  const auto status = static_cast<Status>(reader.number());
  return {status, std::string(reader.rest())};
}

std::optional<std::string> answer_for(std::uint64_t connection, const std::vector<Answer>& answers) {
  for (const auto& answer : answers) {
    if (answer.connection == connection && parse(answer).first == Status::done) return parse(answer).second;
  }
  return std::nullopt;
}

bool is_elsewhere(const std::vector<Answer>& answers) {
  return !answers.empty() && parse(answers.front()).first == Status::elsewhere;
}

MessageWriter addition(const std::string& client, std::uint64_t number, std::uint64_t delta) {
  return MessageWriter()
      .text(client)
      .number(number)
      .number(static_cast<std::uint64_t>(Operation::add))
      .text("sum")
      .number(delta);
}

constexpr std::uint64_t kClient = 100;
constexpr std::uint64_t kOther = 200;

class ReplicaTest : public testing::Test {
 protected:
  /// `member` asks the leader for changes on a connection; what the leader then answers to clients.
  std::vector<Answer> follow(Process& member, std::uint64_t connection) {
    auto answers = leader_.request(connection, Operation::follow, member.replica.follower(member.own), now_);
    const auto copied = answer_for(connection, answers);
    if (copied) member.replica.take(*copied, now_, now_);
    return answers;
  }
  void join(Process& member, std::uint64_t connection) {
    for (int i = 0; i < 5; ++i) follow(member, connection);
    ASSERT_TRUE(member.replica.standing(now_).joined);
  }
  void join_both() {
    for (int i = 0; i < 6; ++i) {
      follow(second_, 2);
      follow(third_, 3);
    }
    ASSERT_TRUE(second_.replica.standing(now_).joined && third_.replica.standing(now_).joined);
  }
  std::vector<Answer> add(std::uint64_t number, Process& at) {
    return at.request(kClient, Operation::once, addition("client", number, 1), now_);
  }
  bool lead(Process& member, const Ids& ended) {
    return member.replica.stand_for_election(2, now_) && member.replica.lead(2, ended, {}, now_);
  }

  Time now_{1h};
  Process leader_{1};
  Process second_{2};
  Process third_{3};
  void SetUp() override { leader_.replica.found(leader_.own); }
};

TEST_F(ReplicaTest, AloneItAnswersAtOnce) {
  EXPECT_EQ(MessageReader(*answer_for(kClient, add(1, leader_))).number(), 1U);
  EXPECT_TRUE(is_elsewhere(add(1, second_)));
}

TEST_F(ReplicaTest, AnAnswerWaitsUntilEveryMemberHasTheChange) {
  join_both();
  EXPECT_EQ(answer_for(kClient, add(1, leader_)), std::nullopt);
  follow(second_, 2);
  EXPECT_EQ(answer_for(kClient, follow(second_, 2)), std::nullopt) << "the third does not have it";
  follow(third_, 3);
  EXPECT_TRUE(answer_for(kClient, follow(third_, 3)));
}

TEST_F(ReplicaTest, ARepeatedRequestIsExecutedOnceHereAndAtTheSuccessor) {
  join(second_, 2);
  add(1, leader_);
  add(1, leader_);  // on the same connection, and withheld like the first
  follow(second_, 2);
  follow(second_, 2);
  ASSERT_TRUE(second_.replica.note_leader_ended(leader_.id(now_), now_));
  ASSERT_TRUE(lead(second_, {leader_.id(now_)}));
  EXPECT_EQ(MessageReader(*answer_for(kClient, add(1, second_))).number(), 1U);
  EXPECT_EQ(MessageReader(*answer_for(kClient, add(2, second_))).number(), 2U);
}

TEST_F(ReplicaTest, ASilentMemberOfTwoIsDoneWithoutAfterTheLease) {
  join(second_, 2);
  add(1, leader_);
  now_ += kLease - 1ms;
  EXPECT_EQ(answer_for(kClient, leader_.replica.tick(now_)), std::nullopt);
  now_ += 1ms;
  EXPECT_TRUE(answer_for(kClient, leader_.replica.tick(now_)));
  EXPECT_TRUE(leader_.replica.standing(now_).leads);
  EXPECT_FALSE(second_.replica.note_leader_ended(leader_.id(now_), now_)) << "too late: it may be out of date";
  // It comes again, and gets what it has missed.
  join(second_, 2);
  EXPECT_EQ(answer_for(kClient, add(2, leader_)), std::nullopt);
}

TEST_F(ReplicaTest, ALeaderOfThreeThatIsAloneStepsDown) {
  join_both();
  add(1, leader_);
  now_ += kLease;
  EXPECT_TRUE(is_elsewhere(leader_.replica.tick(now_))) << "its client has to turn to another one";
  EXPECT_FALSE(leader_.replica.standing(now_).leads);
  EXPECT_TRUE(is_elsewhere(add(2, leader_)));
}

TEST_F(ReplicaTest, AMemberWhoseProcessHasEndedIsDoneWithoutAtOnce) {
  join_both();
  add(1, leader_);
  follow(third_, 3);
  follow(third_, 3);
  leader_.replica.forget(2);
  const auto lost = leader_.replica.lost_members();
  ASSERT_EQ(lost.size(), 1U);
  leader_.replica.note_member_ended(lost.front().id, now_);
  leader_.replica.tick(now_);
  follow(third_, 3);
  EXPECT_TRUE(answer_for(kClient, follow(third_, 3)));
}

TEST_F(ReplicaTest, AReadWaitsWhileAnotherMightLead) {
  join_both();
  const auto read = [&] {
    return answer_for(kOther, leader_.request(kOther, Operation::look_up, MessageWriter().keys({"sum"}), now_));
  };
  EXPECT_TRUE(read());
  now_ += kLease - 1ms;
  EXPECT_TRUE(read());
  now_ += 1ms;  // as after a pause of this process
  EXPECT_FALSE(read());
}

TEST_F(ReplicaTest, NobodyVotesDuringTheLease) {
  join_both();
  EXPECT_FALSE(second_.replica.stand_for_election(2, now_));
  now_ += kLease;
  ASSERT_TRUE(second_.replica.stand_for_election(2, now_));
  MessageWriter candidate;
  candidate.number(2);
  write(candidate, second_.replica.standing(now_).view);
  EXPECT_EQ(MessageReader(*answer_for(9, third_.request(9, Operation::vote, candidate, now_))).number(), 1U);
  EXPECT_EQ(MessageReader(*answer_for(9, third_.request(9, Operation::vote, candidate, now_))).number(), 0U);
  // Who has voted follows the old leader no more.
  EXPECT_TRUE(is_elsewhere(leader_.request(3, Operation::follow, third_.replica.follower(third_.own), now_)));
}

TEST_F(ReplicaTest, TheSixthProcessHasNoCopy) {
  std::vector<std::unique_ptr<Process>> members;
  for (std::uint16_t i = 2; i <= 5; ++i) {
    members.push_back(std::make_unique<Process>(i));
    for (int round = 0; round < 3; ++round) {
      for (std::uint16_t each = 2; each <= i; ++each) follow(*members[each - 2U], each);
    }
  }
  Process sixth(6);
  follow(sixth, 6);
  EXPECT_EQ(leader_.replica.standing(now_).view.members.size(), 5U);
  EXPECT_FALSE(leader_.replica.standing(now_).view.has(sixth.id(now_)));
  EXPECT_TRUE(sixth.replica.standing(now_).joined);
  EXPECT_EQ(sixth.replica.standing(now_).leader, leader_.own);
}

TEST_F(ReplicaTest, ANewStoreGivesWayToAnOlderOneThatCalls) {
  add(1, leader_);
  MessageWriter announcement;
  announcement.text("older").number(2);
  write(announcement, Address{"elsewhere", 7});
  leader_.request(5, Operation::announce, announcement, now_);
  EXPECT_FALSE(leader_.replica.standing(now_).leads);
  EXPECT_EQ(leader_.replica.standing(now_).leader, (Address{"elsewhere", 7}));
  EXPECT_TRUE(leader_.replica.standing(now_).view.store.empty());
}

}  // namespace
}  // namespace lockstep::store
