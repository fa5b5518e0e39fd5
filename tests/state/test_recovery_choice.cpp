#include <lockstep/base/error.h>

#include <lockstep/state/recovery_choice.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::state {
namespace {

using testing::HasSubstr;

const RecoveryState kNew;

RecoveryState at(std::int64_t step, const std::string& hash = "same", std::int64_t epoch = 0,
                 std::int64_t evaluations = 0) {
  return {true, step, epoch, evaluations, hash};
}

struct ChoiceCase {
  const char* what;
  std::vector<RecoveryState> recovery_states;
  std::optional<int> rank;
  const char* words;
};

TEST(RecoveryState, WhoseStateCounts) {
  const std::vector<ChoiceCase> cases = {
      {"nobody has one", {kNew, kNew, kNew}, std::nullopt, ""},
      {"the first of equals", {kNew, at(7), at(7)}, 1, "after step 7 with what rank 1 has"},
      {"at the beginning, too", {at(0), kNew}, 0, "after step 0"},
      {"those that have completed the step", {at(7, "before"), at(8, "after"), at(8, "after")}, 1, "after step 8"},
      {"not the one that has completed the step alone",
       {kNew, at(7, "before"), at(8, "after"), at(7, "before")},
       1,
       "after step 7 with what rank 1 has in memory: rank 2 alone has completed step 8"},
      {"then the furthest of the others",
       {at(8, "after"), at(7, "before", 1), at(7, "before", 2)},
       2,
       "after step 7 with what rank 2 has"},
      {"one that is alone and a step further than others that differ",
       {at(7, "one"), at(8, "after"), at(7, "other")},
       std::nullopt,
       "rank 2"},
      {"the only one that is left", {kNew, kNew, at(3)}, 2, "rank 2"},
      {"at the end of an epoch, the one that has noted it", {at(8, "same", 1), at(8, "same", 2)}, 1, "after step 8"},
      {"after an evaluation, the one that has it", {at(8, "same", 2, 1), at(8, "same", 2, 2)}, 1, "after step 8"},
      {"two that differ",
       {at(7, "one"), at(7, "other"), kNew},
       std::nullopt,
       "after step 7 the state of rank 1 (SHA-256 other) differs from that of rank 0 (one)"},
      {"two that differ, behind a third", {at(7, "one"), at(8, "next"), at(7, "other")}, std::nullopt, "rank 2"},
      {"two that differ, ahead of a third", {at(8, "one"), at(7, "before"), at(8, "other")}, std::nullopt, "rank 2"},
      {"more than a step apart", {at(7, "a"), at(9, "b")}, std::nullopt, "ranks are at steps 7 to 9"},
  };
  for (const ChoiceCase& one : cases) {
    SCOPED_TRACE(one.what);
    const StateChoice choice = choose_state(one.recovery_states);
    EXPECT_EQ(choice.rank, one.rank);
    EXPECT_THAT(choice.reason, HasSubstr(one.words));
    EXPECT_EQ(choice.reason.empty(), *one.words == 0);
  }
}

TEST(RecoveryState, IsReadAsItWasWritten) {
  for (const RecoveryState& recovery_state : {kNew, at(1'234'567'890'123, "abc", 4, 5)}) {
    EXPECT_EQ(parse_recovery_state(to_json(recovery_state)), recovery_state);
  }
  for (const char* text : {"", "{}", "[1]", R"({"has_state": 1})"}) {
    EXPECT_THROW(parse_recovery_state(text), Error) << text;
  }
}

}  // namespace
}  // namespace lockstep::state
