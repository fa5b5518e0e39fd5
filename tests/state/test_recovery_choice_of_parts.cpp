#include <lockstep/base/error.h>

#include <lockstep/state/recovery_choice.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::state {
namespace {

using testing::HasSubstr;

const RecoveryState kNothing;

// Part r after step n has the hash "r/n"; `rank` of three has its own and the copy of the one before.
PartHashes parts(int rank, int step) {
  return {std::to_string(rank) + "/" + std::to_string(step),
          std::to_string((rank + 2) % 3) + "/" + std::to_string(step)};
}

RecoveryState rank_at(int rank, int step) { return {true, step, 0, 0, "shared", parts(rank, step)}; }

RecoveryState interrupted(int rank, int step) {
  auto recovery_state = rank_at(rank, step);
  recovery_state.next = parts(rank, step + 1);
  return recovery_state;
}

RecoveryState with_shared(RecoveryState recovery_state, const std::string& hash) {
  recovery_state.sha256 = hash;
  return recovery_state;
}

RecoveryState with_copy(RecoveryState recovery_state, const std::string& hash) {
  recovery_state.parts.value().copy = hash;
  return recovery_state;
}

PartSource own(int rank) { return {rank, false}; }
PartSource copy(int rank) { return {rank, true}; }

struct PartsChoiceCase {
  const char* what;
  std::vector<RecoveryState> recovery_states;
  std::optional<int> rank;
  std::vector<PartSource> sources;
  const char* words;
};

TEST(RecoveryStateInParts, WhosePartsCount) {
  const std::vector<PartsChoiceCase> cases = {
      {"nobody has any", {kNothing, kNothing, kNothing}, std::nullopt, {}, ""},
      {"all have theirs",
       {rank_at(0, 7), rank_at(1, 7), rank_at(2, 7)},
       0,
       {own(0), own(1), own(2)},
       "going on after step 7"},
      {"one is new",
       {rank_at(0, 7), kNothing, rank_at(2, 7)},
       0,
       {own(0), copy(2), own(2)},
       "rank 2 has kept rank 1's part"},
      {"the last is new, whose part the first has",
       {rank_at(0, 7), rank_at(1, 7), kNothing},
       0,
       {own(0), own(1), copy(0)},
       "rank 0 has kept rank 2's part"},
      {"one could share its update, the other not all of it",
       {interrupted(0, 7), kNothing, rank_at(2, 8)},
       2,
       {own(0), copy(2), own(2)},
       "going on after step 8"},
      {"nobody could: the update is undone",
       {interrupted(0, 7), kNothing, interrupted(2, 7)},
       0,
       {own(0), copy(2), own(2)},
       "going on after step 7"},
      {"one has not begun what the other has completed",
       {rank_at(0, 7), kNothing, rank_at(2, 8)},
       std::nullopt,
       {},
       "rank 0's part of the state after step 8 is lost, with its copy on rank 1"},
      {"neighbours are new",
       {rank_at(0, 7), kNothing, kNothing},
       std::nullopt,
       {},
       "rank 1's part of the state after step 7 is lost, with its copy on rank 2"},
      {"a part and its copy differ",
       {rank_at(0, 7), with_copy(rank_at(1, 7), "other"), rank_at(2, 7)},
       std::nullopt,
       {},
       "after step 7 rank 0's part of the state (SHA-256 0/7) differs from its copy on rank 1 (other); no state"},
      {"what all have differs",
       {rank_at(0, 7), with_shared(rank_at(1, 7), "other"), rank_at(2, 7)},
       std::nullopt,
       {},
       "after step 7 the state of rank 1 (SHA-256 other) differs from that of rank 0 (shared); no state"},
      {"what all have differs behind a third",
       {interrupted(0, 7), with_shared(interrupted(1, 7), "other"), rank_at(2, 8)},
       std::nullopt,
       {},
       "after step 7 the state of rank 1 (SHA-256 other) differs from that of rank 0 (shared); no state"},
      {"a part and its copy differ behind a third",
       {interrupted(0, 7), with_copy(interrupted(1, 7), "other"), rank_at(2, 8)},
       std::nullopt,
       {},
       "after step 7 rank 0's part of the state (SHA-256 0/7) differs from its copy on rank 1 (other); no state"},
      {"more than a step apart",
       {rank_at(0, 7), rank_at(1, 9), rank_at(2, 9)},
       std::nullopt,
       {},
       "ranks are at steps 7 to 9, which cannot be: a step needs all of them; no state"},
  };
  for (const PartsChoiceCase& one : cases) {
    SCOPED_TRACE(one.what);
    const StateChoice choice = choose_state(one.recovery_states);
    EXPECT_EQ(choice.rank, one.rank);
    EXPECT_EQ(choice.sources, one.sources);
    EXPECT_THAT(choice.reason, HasSubstr(one.words));
    EXPECT_EQ(choice.reason.empty(), *one.words == 0);
  }
}

TEST(RecoveryStateInParts, IsReadAsItWasWritten) {
  for (const RecoveryState& recovery_state : {kNothing, rank_at(1, 1'234'567), interrupted(2, 5)}) {
    EXPECT_EQ(parse_recovery_state(to_json(recovery_state)), recovery_state);
  }
  for (const char* text : {"", "{}", "[1]", R"({"has_state": 1})"}) {
    EXPECT_THROW(parse_recovery_state(text), Error) << text;
  }
}

}  // namespace
}  // namespace lockstep::state
