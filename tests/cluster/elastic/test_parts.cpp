// The small parts under the agents of a job.
#include <lockstep/cluster/elastic/job_json.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/elastic/stay.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace lockstep::cluster::elastic {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

RankEnd full_end() {
  RankEnd end;
  end.rank = 3;
  end.pid = 42;
  end.host = "b";
  end.status = {0, 9};
  end.when = std::chrono::system_clock::time_point(1234567ms);
  end.after = 1500ms;
  end.asked = 15;
  end.note = FailureNote{"[io] disk full", "io", std::chrono::system_clock::time_point(1234560ms)};
  end.progress = RankProgress{.step = 7,
                              .backwards = 8,
                              .begun = CollectiveMark{"all_reduce", 9, "default"},
                              .ended = CollectiveMark{"broadcast", 8, "default"},
                              .since_begun = 30ms};
  const RankCalls::Time until(std::chrono::hours(5));
  end.calls = RankCalls{.rank = 3,
                        .groups = {{"default",
                                    {{.op = "all_reduce",
                                      .number = 9,
                                      .element = "float32",
                                      .bytes = 24,
                                      .step = 7,
                                      .place = "bucket 0",
                                      .asked = until - 30ms,
                                      .begun = until - 20ms,
                                      .completed = std::nullopt}}}},
                        .until = until};
  end.last_lines = {"a line", "another"};
  return end;
}

TEST(RankEnds, AreSentWhole) {
  const auto read = ends_from(json_of(NodeEnds{"b", "", {full_end(), RankEnd{}}, -70ms}));
  ASSERT_EQ(read.ends.size(), 2u);
  const RankEnd& end = read.ends[0];
  const RankEnd expected = full_end();
  EXPECT_EQ(read.ahead, -70ms);
  EXPECT_EQ(end.rank, expected.rank);
  EXPECT_EQ(end.pid, expected.pid);
  EXPECT_EQ(end.host, "b");
  EXPECT_EQ(end.status, expected.status);
  EXPECT_EQ(end.when, expected.when);
  EXPECT_EQ(end.after, expected.after);
  EXPECT_EQ(end.asked, expected.asked);
  ASSERT_TRUE(end.note);
  EXPECT_EQ(end.note->message, expected.note->message);
  EXPECT_EQ(end.note->kind, expected.note->kind);
  EXPECT_EQ(end.note->when, expected.note->when);
  EXPECT_EQ(end.progress, expected.progress);
  EXPECT_EQ(end.last_lines, expected.last_lines);
  ASSERT_TRUE(end.calls);
  EXPECT_EQ(end.calls->rank, 3);
  ASSERT_EQ(end.calls->groups.size(), 1u);
  auto call = end.calls->groups[0].calls.at(0);
  EXPECT_EQ(end.calls->until - call.asked, 30ms) << "the clock is another one, and the ages are the same";
  EXPECT_EQ(end.calls->until - *call.begun, 20ms);
  call.asked = expected.calls->groups[0].calls[0].asked;
  call.begun = expected.calls->groups[0].calls[0].begun;
  EXPECT_EQ(call, expected.calls->groups[0].calls[0]);
  EXPECT_FALSE(read.ends[1].calls);
  EXPECT_FALSE(read.ends[1].note);
  EXPECT_FALSE(read.ends[1].progress);
}

TEST(RankEnds, AreJudgedOverAllNodes) {
  RankEnd told;
  told.status = {0, 15};
  told.asked = 15;
  EXPECT_EQ(judge_all(std::vector{NodeEnds{"a", "", {told}, 0ms}}).report, "");
  RankEnd failed;
  failed.rank = 1;
  failed.status = {4, 0};
  const auto outcome = judge_all(std::vector{NodeEnds{"a", "", {told}, 0ms}, NodeEnds{"b", "", {failed}, 0ms}});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.first_failed, 1);
  EXPECT_EQ(judge_all(std::vector{NodeEnds{"a", "cannot run", {}, 0ms}, NodeEnds{"b", "", {failed}, 0ms}}).report,
            "lockstep run: a: cannot run\n");
}

TEST(RankEnds, AWordToARankExplainsOnlyAnEarlyEnd) {
  RankEnd end;
  end.status = {75, 0};
  for (const int asked : {0, SIGUSR1, SIGTERM}) {
    end.asked = asked;
    end.note = FailureNote{"SIGUSR1 ended the run early", "ended_early", std::nullopt};
    EXPECT_TRUE(any_ended_early(std::vector{end}));
    EXPECT_EQ(obeyed_notice_signal(std::vector{end}), asked == SIGUSR1 ? std::optional(SIGUSR1) : std::nullopt);
    end.note.reset();
    EXPECT_FALSE(any_ended_early(std::vector{end}));
    EXPECT_EQ(obeyed_notice_signal(std::vector{end}), std::nullopt);
    EXPECT_EQ(failed_by_itself(end), asked != SIGTERM);
    EXPECT_EQ(judge_all(std::vector{NodeEnds{"a", "", {end}, 0ms}}).report.empty(), asked == SIGTERM);
  }
}

TEST(OpenFiles, AreAsManyAsTheHardLimitAllows) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{std::min<rlim_t>(before.rlim_max, 64), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  raise_open_file_limit();
  rlimit raised{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, std::min<rlim_t>(before.rlim_max, 1 << 20));
  EXPECT_EQ(raised.rlim_max, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(RankEnds, OfHostsWhoseClocksDiffer) {
  RankEnd early;
  early.status = {3, 0};
  early.when = std::chrono::system_clock::time_point(100'000ms);
  RankEnd late = early;
  late.rank = 1;
  late.when += 500ms;
  const auto first = [&](std::chrono::milliseconds ahead) {
    return judge_all(std::vector{NodeEnds{"a", "", {early}, 40ms}, NodeEnds{"b", "", {late}, ahead}}).first_failed;
  };
  EXPECT_EQ(first(60ms), 0);
  EXPECT_EQ(first(900ms), 0);
  EXPECT_EQ(first(5000ms), 1);
  EXPECT_EQ(first(-5000ms), 0);
}

}  // namespace
}  // namespace lockstep::cluster::elastic
