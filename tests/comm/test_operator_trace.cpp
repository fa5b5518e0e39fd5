// Traces: what ranks did, compared.
#include <lockstep/comm/operator_trace.h>

#include "comm/suite.h"

#include <string>
#include <vector>

namespace lockstep::test {
namespace {

/// Takes a step of each letter of `steps`.
void take(OperatorTrace& trace, const std::string& steps) {
  for (const char step : steps) {
    const auto hash = static_cast<std::uint64_t>(step);
    trace.take(hash, trace.text_for(hash, [&] { return std::string("op ") + step; }));
  }
}

std::optional<std::string> difference(const std::vector<std::string>& steps_of_ranks) {
  std::vector<detail::NotesOfRank> notes;
  for (std::size_t rank = 0; rank < steps_of_ranks.size(); ++rank) {
    OperatorTrace trace("c");
    take(trace, steps_of_ranks[rank]);
    notes.push_back({static_cast<int>(rank), trace.notes()});
  }
  return detail::first_difference(notes);
}

TEST(OperatorTraceTest, TheHashTellsTheOrderAndTheNumberOfSteps) {
  const auto hash = [](const std::string& steps) {
    OperatorTrace trace("c");
    take(trace, steps);
    return trace.hash();
  };
  EXPECT_EQ(hash("abc"), hash("abc"));
  EXPECT_NE(hash("abc"), hash("acb"));
  EXPECT_NE(hash("abc"), hash("abcc"));
  EXPECT_NE(hash("abc"), hash("abd"));
}

TEST(OperatorTraceTest, SaysWhereItIs) {
  OperatorTrace trace("c");
  EXPECT_EQ(trace.here(), "global operator 0");
  take(trace, "xy");
  EXPECT_EQ(trace.here(), "global operator 2, op y");
}

TEST(OperatorTraceTest, TheFirstDifferenceIsNamedWithWhatEachRankDid) {
  EXPECT_FALSE(difference({"abc", "abc", "abc"}));
  EXPECT_EQ(difference({"abc", "axc", "abc"}),
            "The first difference is global operator 2: ranks 0, 2: op b; rank 1: op x");
  EXPECT_EQ(difference({"abc", "ab"}),
            "The first difference is global operator 3: rank 0: op c; rank 1: did not reach it; its last was 2, op b");
  EXPECT_EQ(difference({"", "a"}),
            "The first difference is global operator 1: rank 0: did not reach it; its last was 0; rank 1: op a");
}

TEST(OperatorTraceTest, ADifferenceThatIsForgottenIsCalledOld) {
  const std::string since(2 * OperatorTrace::kRemembered, 'a');
  const auto found = difference({"b" + since, "c" + since});
  ASSERT_TRUE(found);
  EXPECT_NE(found->find("They have differed for long"), std::string::npos) << *found;
  EXPECT_FALSE(difference({"b" + since, "b" + since}));
}

TEST(OperatorTraceTest, RanksThatToldNothingAreLeftOut) {
  OperatorTrace trace("c");
  take(trace, "a");
  EXPECT_FALSE(detail::first_difference({{0, trace.notes()}, {1, ""}}));
}

TEST(OperatorTraceTest, AfterAFailureOnOneRankTheOthersFollow) {
  std::string drawn = "as before";
  OperatorTrace failed("c", {.save = [] { return std::string("\x01\xffz", 3); }, .restore = {}});
  OperatorTrace other("c", {.save = {}, .restore = [&](const std::string& bytes) { drawn = bytes; }});
  take(failed, "ab");
  failed.fail(1, ErrorKind::data, "no such row");
  take(failed, "x");
  failed.fail(1, ErrorKind::config, "nor this");
  take(failed, "y");
  take(other, "abcd");
  const auto told = [&] {
    return detail::failures_in({{0, other.notes()}, {1, failed.notes()}, {2, ""}}, other.failures());
  };
  for (const auto* text : {"rank 1 failed in global operator 2, op b: no such row",
                           "rank 1 failed in global operator 1, op x: nor this"}) {
    const auto next = told().next;
    ASSERT_TRUE(next);
    EXPECT_EQ(next->text, text);
    EXPECT_EQ(next->kind, other.failures() == 0 ? ErrorKind::data : ErrorKind::config);
    other.follow(*next);
    EXPECT_EQ(drawn, std::string("\x01\xffz", 3));
  }
  EXPECT_FALSE(told().next);
  EXPECT_FALSE(told().others_behind);
  EXPECT_TRUE(told().some_silent);
  EXPECT_TRUE(
      detail::failures_in({{0, OperatorTrace("c").notes()}, {1, failed.notes()}}, failed.failures()).others_behind);
  take(other, "y");
  EXPECT_EQ(other.hash(), failed.hash());
  EXPECT_EQ(other.number(), failed.number());
}

TEST(OperatorTraceTest, AScopeIsOfItsThreadAndEnds) {
  OperatorTrace outer("outer");
  OperatorTrace inner("inner");
  EXPECT_EQ(current_trace(), nullptr);
  {
    const OperatorTraceScope one(&outer);
    {
      const OperatorTraceScope none(nullptr);
      EXPECT_EQ(current_trace(), &outer);
      const OperatorTraceScope two(&inner);
      EXPECT_EQ(current_trace(), &inner);
    }
    EXPECT_EQ(current_trace(), &outer);
  }
  EXPECT_EQ(current_trace(), nullptr);
}

}  // namespace
}  // namespace lockstep::test
