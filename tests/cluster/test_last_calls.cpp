#include <lockstep/base/files.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/last_calls.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using Time = RankCalls::Time;

/// A call at this second, which takes half a second, or is not complete.
CallRecord call(std::string op, std::uint64_t number, std::chrono::seconds at, bool complete = true) {
  CallRecord made{.op = std::move(op),
                  .number = number,
                  .element = "float32",
                  .bytes = 16384,
                  .step = 12,
                  .place = "",
                  .asked = Time(at),
                  .begun = Time(at),
                  .completed = {}};
  if (complete) made.completed = Time(at) + 500ms;
  return made;
}

RankCalls rank(int number, std::vector<GroupCalls> groups) { return {number, std::move(groups), Time(100s)}; }

TEST(LastCalls, NameTheFirstCallThatSomeRanksLack) {
  auto third = call("all_reduce", 41, 80s, false);
  third.place = "the gradient of fc2.weight (bucket 0)";
  const std::vector<RankCalls> ranks = {
      rank(0, {{"world", {call("barrier", 39, 70s), call("all_reduce", 40, 75s), third}}}),
      rank(1, {{"world", {call("all_reduce", 40, 75s), third}}}),
      rank(2, {{"world", {call("barrier", 39, 70s), call("all_reduce", 40, 75s)}}})};
  EXPECT_EQ(compare_calls(ranks),
            "group \"world\": not all ranks have made all_reduce 41 (16 KiB of float32, the gradient of fc2.weight "
            "(bucket 0))\n"
            "  ranks 0, 1 are in it, since 20.0 s\n"
            "  rank 2 has not made it; its last call was all_reduce 40 (16 KiB of float32), which it had completed "
            "24.5 s before\n");
}

TEST(LastCalls, OfRanksThatHaveNotWaitedLongAreLeftOut) {
  const std::vector ranks = {rank(0, {{"world", {call("all_reduce", 40, 95s), call("all_reduce", 41, 98s, false)}}}),
                             rank(1, {{"world", {call("all_reduce", 40, 95s)}}})};
  EXPECT_NE(compare_calls(ranks), "");
  EXPECT_NE(compare_calls(ranks, 2s), "");
  EXPECT_EQ(compare_calls(ranks, 2001ms), "");
}

TEST(LastCalls, AreComparedInEachGroupAndNameWhereTheOthersAre) {
  const std::vector<RankCalls> ranks = {
      rank(0, {{"world", {call("all_reduce", 7, 50s)}}, {"world/1", {call("broadcast", 1, 60s, false)}}}),
      rank(1, {{"world", {call("all_reduce", 7, 50s), call("barrier", 8, 55s, false)}}, {"world/1", {}}})};
  const auto text = compare_calls(ranks);
  EXPECT_THAT(text, testing::HasSubstr("group \"world\": not all ranks have made barrier 8"));
  EXPECT_THAT(text, testing::HasSubstr("rank 0 has not made it; it is in broadcast 1 (16 KiB of float32) of group "
                                       "\"world/1\", since 40.0 s"));
  EXPECT_THAT(text, testing::HasSubstr("group \"world/1\": not all ranks have made broadcast 1"));
  EXPECT_THAT(text, testing::HasSubstr("rank 1 has not made it; it is in barrier 8"));
}

TEST(LastCalls, NameDifferentOperationsWithOneNumber) {
  const std::vector<RankCalls> ranks = {rank(0, {{"world", {call("all_reduce", 3, 50s, false)}}}),
                                        rank(1, {{"world", {call("barrier", 3, 50s, false)}}}),
                                        rank(2, {{"world", {call("all_reduce", 3, 50s, false)}}})};
  EXPECT_EQ(compare_calls(ranks),
            "group \"world\": call 3 is not the same on all ranks\n"
            "  ranks 0, 2: all_reduce 3 (16 KiB of float32)\n"
            "  rank 1: barrier 3 (16 KiB of float32)\n");
}

TEST(LastCalls, SayNothingWhereTheRanksAgree) {
  EXPECT_EQ(compare_calls({}), "");
  const auto one = rank(0, {{"world", {call("all_reduce", 3, 50s, false)}}});
  EXPECT_EQ(compare_calls(std::vector{one}), "");
  EXPECT_EQ(compare_calls(std::vector{one, rank(1, one.groups)}), "");
  // Messages have two sides only, and calls of groups without a name have no order.
  EXPECT_EQ(compare_calls(std::vector{rank(0, {{"world", {call("send", 9, 1s)}}, {"", {call("barrier", 5, 1s)}}}),
                                      rank(1, {{"world", {}}, {"", {call("barrier", 6, 1s)}}})}),
            "");
  // A group of some ranks.
  EXPECT_EQ(compare_calls(std::vector{rank(0, {{"world/1", {call("barrier", 5, 1s)}}}), rank(1, {{"world", {}}})}), "");
}

TEST(LastCalls, OfARankFarBehindTheNumberIsNamed) {
  const auto text =
      compare_calls(std::vector{rank(0, {{"world", {call("all_reduce", 90, 1s)}}}),
                                rank(1, {{"world", {call("all_reduce", 3, 1s)}}}), rank(2, {{"world", {}}})});
  EXPECT_THAT(text, testing::HasSubstr("not all ranks have made call 1\n"));
  EXPECT_THAT(text, testing::HasSubstr("ranks 0, 1 have made it, and later ones"));
  EXPECT_THAT(text, testing::HasSubstr("rank 2 has not made it; it has made no call"));
}

TEST(LastCalls, AreShortenedToTheNewest) {
  std::vector<GroupCalls> groups;
  for (int group = 0; group < 6; ++group) {
    auto& made = groups.emplace_back(GroupCalls{std::to_string(group), {}});
    for (std::uint64_t i = 1; i <= 9; ++i) made.calls.push_back(call("barrier", i, std::chrono::seconds(10 * group)));
  }
  groups.push_back({"empty", {}});
  const auto kept = newest_calls(groups, 2, 3);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[0].group, "5");
  EXPECT_EQ(kept[2].group, "3");
  ASSERT_EQ(kept[0].calls.size(), 2U);
  EXPECT_EQ(kept[0].calls[1].number, 9U);
}

void make_page(const std::filesystem::path& folder, int rank, std::uint64_t number) {
  std::filesystem::create_directories(folder);
  auto page = StatusPage::open({{"LOCKSTEP_STATUS_FILE", (folder / "status").string()}});
  page.name_rank(rank);
  page.ask(page.name_group("world"), {.op = number_of_collective("barrier"), .number = number}, Time(1s));
}

TEST(LastCalls, OfAFolderOfLogsThoseOfTheLastStartAreRead) {
  const TemporaryFolder logs;
  make_page(logs.path() / "none_a/attempt_0/0", 0, 50);
  std::filesystem::last_write_time(logs.path() / "none_a/attempt_0/0/status",
                                   std::filesystem::file_time_type::clock::now() - 1h);
  make_page(logs.path() / "none_a/attempt_1/0", 4, 7);
  make_page(logs.path() / "none_a/attempt_1/1", 5, 8);
  std::filesystem::last_write_time(logs.path() / "none_a/attempt_1/1/status",
                                   std::filesystem::file_time_type::clock::now() - 1min);
  make_page(logs.path() / "none_a/attempt_1/replacement_1/1", 5, 9);
  const auto ranks = read_calls_in(logs.path());
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0].rank, 4);
  EXPECT_EQ(ranks[1].groups[0].calls[0].number, 9U);
  EXPECT_THAT(compare_calls(ranks), testing::HasSubstr("rank 4 has not made it"));
  EXPECT_THAT(table_of_calls(ranks, 3), testing::HasSubstr("rank 5, group \"world\":\n"));

  test::expect_error(ErrorKind::io, {"not a folder of logs"}, [&] { read_calls_in(logs.path() / "missing"); });
  const TemporaryFolder empty;
  write_file_atomically(empty.path() / "status", "no page");
  test::expect_error(ErrorKind::invalid_argument, {"no rank has left a status page"},
                     [&] { read_calls_in(empty.path()); });
}

}  // namespace
}  // namespace lockstep::cluster
