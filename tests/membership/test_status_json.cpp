#include <lockstep/membership/service/status.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::membership {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const Time kAskedAt{std::chrono::hours(1000)};

Member worker_of(int rank, std::optional<StepTime> time) {
  Member member;
  member.node_id = fmt::format("w{}", rank);
  member.host = "here";
  member.rank = rank;
  member.phase = Phase::running;
  member.heard = kAskedAt;
  member.step = 12;
  member.step_time = time;
  return member;
}

Membership with_a_slow_one() {
  Membership membership;
  membership.wanted = 3;
  membership.generation = 1;
  membership.members = {worker_of(0, StepTime{57100us, 6000us}), worker_of(1, StepTime{57000us, 56500us}),
                        worker_of(2, StepTime{56900us, 7000us})};
  return membership;
}

json status_of(const Membership& membership) { return json::parse(status_json(membership, {}, kAskedAt)); }

TEST(StatusJson, SaysForWhomTheOthersWait) {
  const auto status = status_of(with_a_slow_one());
  EXPECT_EQ(status["workers"][0]["step_ms"], 57.1);
  EXPECT_EQ(status["workers"][0]["own_ms"], 6.0);
  EXPECT_EQ(status["workers"][1]["own_ms"], 56.5);
  EXPECT_EQ(status["workers"][0]["straggler"], false);
  EXPECT_EQ(status["workers"][1]["straggler"], true);
  EXPECT_THAT(status_table(status.dump()),
              ContainsRegex("    1  running +12 +57.0 +56.5 .* w1\n +straggler: the others wait for it\n    2 "));
}

TEST(StatusJson, TimesAreOfThoseThatCompute) {
  Membership membership = with_a_slow_one();
  membership.members[0].phase = Phase::waiting;
  membership.members[1].link = Link::closed;
  membership.members[2].step_time.reset();
  const auto status = status_of(membership);
  for (const auto& worker : status["workers"]) {
    EXPECT_EQ(worker["step_ms"], nullptr);
    EXPECT_EQ(worker["own_ms"], nullptr);
    EXPECT_EQ(worker["straggler"], false);
  }
  EXPECT_THAT(status_table(status.dump()), ContainsRegex("    0  waiting +12 +- +- "));
}

TEST(StatusJson, ShowsWhatIsAwaitedAndTheLastDecisions) {
  Membership membership = with_a_slow_one();
  membership.recovery = true;
  membership.changed = kAskedAt - 7s;
  EXPECT_EQ(status_of(membership)["awaited"], nullptr);
  membership.members[1].link = Link::closed;
  StatusFacts facts;
  facts.decisions = {{kAskedAt - 30s, "generation 1 begins with 3 workers"}, {kAskedAt - 7s, "w1 is lost: why"}};
  const auto status = json::parse(status_json(membership, facts, kAskedAt));
  EXPECT_EQ(status["awaited"], "a process in the place of worker 'w1' (rank 1, pid 0 on here)");
  EXPECT_EQ(status["awaited_s"], 7.0);
  EXPECT_EQ(status["decisions"][1]["seconds_ago"], 7.0);
  EXPECT_THAT(status_table(status.dump()),
              testing::EndsWith("awaited for 7 s: a process in the place of worker 'w1' (rank 1, pid 0 on here)\n"
                                "last decisions:\n      30 s ago  generation 1 begins with 3 workers\n"
                                "       7 s ago  w1 is lost: why\n"));
}

TEST(StatusJson, AnOlderSchedulersDocumentIsATableToo) {
  auto status = status_of(with_a_slow_one());
  for (auto& worker : status["workers"]) {
    for (const char* field : {"step_ms", "own_ms", "straggler"}) worker.erase(field);
  }
  EXPECT_THAT(status_table(status.dump()), ContainsRegex("    1  running +12 +- +- .* w1\n"));
  EXPECT_THAT(status_table(status.dump()), Not(HasSubstr("straggler")));
  for (const char* field : {"awaited", "awaited_s", "decisions"}) status.erase(field);
  EXPECT_THAT(status_table(status.dump()), Not(HasSubstr("await")));
}

}  // namespace
}  // namespace lockstep::membership
