// Courses: what ranks did, compared.
#include <lockstep/comm/course.h>

#include "comm/suite.h"

#include <string>
#include <vector>

namespace lockstep::test {
namespace {

/// Takes a step of each letter of `steps`.
void take(Course& course, const std::string& steps) {
  for (const char step : steps) {
    const auto hash = static_cast<std::uint64_t>(step);
    course.take(hash, course.text_for(hash, [&] { return std::string("op ") + step; }));
  }
}

std::optional<std::string> difference(const std::vector<std::string>& steps_of_ranks) {
  std::vector<detail::NotesOfRank> notes;
  for (std::size_t rank = 0; rank < steps_of_ranks.size(); ++rank) {
    Course course("c");
    take(course, steps_of_ranks[rank]);
    notes.push_back({static_cast<int>(rank), course.notes()});
  }
  return detail::first_difference(notes);
}

TEST(CourseTest, TheHashTellsTheOrderAndTheNumberOfSteps) {
  const auto hash = [](const std::string& steps) {
    Course course("c");
    take(course, steps);
    return course.hash();
  };
  EXPECT_EQ(hash("abc"), hash("abc"));
  EXPECT_NE(hash("abc"), hash("acb"));
  EXPECT_NE(hash("abc"), hash("abcc"));
  EXPECT_NE(hash("abc"), hash("abd"));
}

TEST(CourseTest, SaysWhereItIs) {
  Course course("c");
  EXPECT_EQ(course.here(), "global operator 0");
  take(course, "xy");
  EXPECT_EQ(course.here(), "global operator 2, op y");
}

TEST(CourseTest, TheFirstDifferenceIsNamedWithWhatEachRankDid) {
  EXPECT_FALSE(difference({"abc", "abc", "abc"}));
  EXPECT_EQ(difference({"abc", "axc", "abc"}),
            "The first difference is global operator 2: ranks 0, 2: op b; rank 1: op x");
  EXPECT_EQ(
      difference({"abc", "ab"}),
      "The first difference is global operator 3: rank 0: op c; rank 1: did not come to it; its last was 2, op b");
  EXPECT_EQ(difference({"", "a"}),
            "The first difference is global operator 1: rank 0: did not come to it; its last was 0; rank 1: op a");
}

TEST(CourseTest, ADifferenceThatIsForgottenIsCalledOld) {
  const std::string since(2 * Course::kRemembered, 'a');
  const auto found = difference({"b" + since, "c" + since});
  ASSERT_TRUE(found);
  EXPECT_NE(found->find("They have differed for long"), std::string::npos) << *found;
  EXPECT_FALSE(difference({"b" + since, "b" + since}));
}

TEST(CourseTest, RanksThatToldNothingAreLeftOut) {
  Course course("c");
  take(course, "a");
  EXPECT_FALSE(detail::first_difference({{0, course.notes()}, {1, ""}}));
}

TEST(CourseTest, AfterAFailureOnOneRankTheOthersFollow) {
  std::string drawn = "as before";
  Course failed("c", {.save = [] { return std::string("\x01\xffz", 3); }, .restore = {}});
  Course other("c", {.save = {}, .restore = [&](const std::string& bytes) { drawn = bytes; }});
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
  EXPECT_TRUE(detail::failures_in({{0, Course("c").notes()}, {1, failed.notes()}}, failed.failures()).others_behind);
  take(other, "y");
  EXPECT_EQ(other.hash(), failed.hash());
  EXPECT_EQ(other.number(), failed.number());
}

TEST(CourseTest, AScopeIsOfItsThreadAndEnds) {
  Course outer("outer");
  Course inner("inner");
  EXPECT_EQ(current_course(), nullptr);
  {
    const CourseScope one(&outer);
    {
      const CourseScope none(nullptr);
      EXPECT_EQ(current_course(), &outer);
      const CourseScope two(&inner);
      EXPECT_EQ(current_course(), &inner);
    }
    EXPECT_EQ(current_course(), &outer);
  }
  EXPECT_EQ(current_course(), nullptr);
}

}  // namespace
}  // namespace lockstep::test
