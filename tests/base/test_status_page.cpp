#include <lockstep/base/status_page.h>
#include <lockstep/base/temporary_folder.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/small_disk.h"
#include "support/forks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Time = StatusPage::Time;

constexpr auto kAllReduce = number_of_collective("all_reduce");
constexpr auto kBarrier = number_of_collective("barrier");
constexpr auto kFloat = number_of_element("float32");

StatusPage::Call all_reduce(std::uint64_t number) { return {kAllReduce, kFloat, number, 24, 0}; }
StatusPage::Call barrier(std::uint64_t number) { return {.op = kBarrier, .number = number}; }

class StatusPages : public testing::Test {
 protected:
  StatusPage open() const { return StatusPage::open({{"LOCKSTEP_STATUS_FILE", path().string()}}); }
  std::filesystem::path path() const { return folder_.path() / "page"; }
  std::optional<RankProgress> read(Time until = {}) const { return read_status_page(path(), until); }

 private:
  TemporaryFolder folder_;
};

TEST_F(StatusPages, SaysNothingAtFirst) {
  EXPECT_EQ(read(), std::nullopt);
  const auto page = open();
  EXPECT_EQ(read(), RankProgress{});
}

TEST_F(StatusPages, SaysWhatIsUnderWayAndSinceWhen) {
  auto page = open();
  const auto world = page.name_group("world");
  StatusPage::complete(page.ask(world, barrier(11), Time(1s)), Time(2s));
  page.complete_step(7);
  page.complete_backward();
  page.complete_backward();
  page.ask(page.name_group("world/1"), all_reduce((std::uint64_t{1} << 48) - 1), Time(5s));
  const RankProgress expected{7, 2, CollectiveMark{"all_reduce", (std::uint64_t{1} << 48) - 1, "world/1"},
                              CollectiveMark{"barrier", 11, "world"}, 4200ms};
  EXPECT_EQ(read(Time(9200ms)), expected);
  EXPECT_EQ(read(Time(0s))->since_begun, 0ms) << "clocks that do not fit give no negative times";
}

// Several gradients are on their way; the program waits for the first of them.
TEST_F(StatusPages, TheFirstCallThatIsNotCompleteIsUnderWay) {
  auto page = open();
  const auto world = page.name_group("world");
  const auto mark = [](const char* op, std::uint64_t number, const char* group) {
    return CollectiveMark{op, number, group};
  };
  StatusPage::complete(page.ask(world, all_reduce(143), Time(1s)), Time(3s));
  const auto stuck = page.ask(world, all_reduce(144), Time(1100ms));
  const auto next = page.ask(world, all_reduce(145), Time(1200ms));
  page.ask(page.name_group("pair"), barrier(7), Time(1300ms));
  EXPECT_EQ(read(Time(5100ms)),
            (RankProgress{{}, 0, mark("all_reduce", 144, "world"), mark("all_reduce", 143, "world"), 4000ms}));
  page.ask(world, {.op = number_of_collective("send"), .number = 1}, Time(1s));
  EXPECT_EQ(read()->begun, mark("send", 1, "world")) << "messages are not ordered with collectives";
  StatusPage::complete(next, Time(6s));
  StatusPage::complete(page.ask(world, {.op = number_of_collective("receive"), .number = 1}, Time(6s)), Time(7s));
  EXPECT_EQ(read()->begun, mark("barrier", 7, "pair")) << "the call and the message before were given up";
  StatusPage::complete(stuck, Time(8s));
}

TEST_F(StatusPages, OneThatEndsAfterALaterOneIsNotUnderWay) {
  auto page = open();
  const auto world = page.name_group("world");
  std::vector<StatusPage::Record> records;
  for (const int number : {1, 2, 3}) {
    records.push_back(page.ask(world, all_reduce(static_cast<std::uint64_t>(number)), Time(number * 1s)));
  }
  StatusPage::complete(records[1], Time(4s));
  EXPECT_EQ(read()->ended, (CollectiveMark{"all_reduce", 2, "world"}));
  StatusPage::complete(records[2], Time(5s));
  StatusPage::complete(records[0], Time(6s));
  EXPECT_EQ(read()->ended, read()->begun);
}

TEST_F(StatusPages, NamesAFewGroupsAndCutsTheirNames) {
  auto page = open();
  for (int i = 0; i < 20; ++i) {
    const std::string name = i == 3 ? std::string(1000, 'x') : "group " + std::to_string(i);
    StatusPage::complete(page.ask(page.name_group(name), barrier(1), Time(i * 1s)), Time(i * 1s));
    EXPECT_EQ(read()->begun->group, i >= 15 ? "" : name.substr(0, 63));
  }
}

TEST_F(StatusPages, KeepsTheLastCallsOfEachGroup) {
  auto page = open();
  page.name_rank(3);
  page.name_rank(1);  // of another job
  const auto world = page.name_group("world");
  const auto quiet = page.name_group("quiet");
  EXPECT_NE(world, quiet);
  const auto place = page.name_place("bucket 0");
  EXPECT_EQ(page.name_place("bucket 0"), place);
  EXPECT_NE(page.name_place(std::string(500, 'x')), place);
  const auto first = page.ask(world, all_reduce(1), Time(1s));
  for (std::uint64_t i = 2; i <= StatusPage::kRemembered + 5; ++i) {
    auto call = all_reduce(i);
    call.place = place;
    const auto record = page.ask(world, call, Time(1ms * i));
    StatusPage::begin(record, Time(1ms * i + 1us));
    if (i % 2 == 0) StatusPage::complete(record, Time(1ms * i + 2us));
    if (i == 7) page.complete_step(12);
  }
  StatusPage::complete(first, Time(9s));  // its record belongs to another call now
  const auto calls = read_calls(path(), Time(10s));
  ASSERT_TRUE(calls);
  EXPECT_EQ(calls->rank, 3);
  EXPECT_EQ(calls->until, Time(10s));
  ASSERT_EQ(calls->groups.size(), 2U);
  EXPECT_EQ(calls->groups[1], (GroupCalls{"quiet", {}}));
  EXPECT_EQ(page.calls(), calls->groups) << "this process reads the same";
  const auto& seen = calls->groups[0].calls;
  ASSERT_EQ(seen.size(), StatusPage::kRemembered);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::uint64_t number = 6 + i;
    CallRecord expected{.op = "all_reduce",
                        .number = number,
                        .element = "float32",
                        .bytes = 24,
                        .step = number > 7 ? std::optional<std::int64_t>(12) : std::nullopt,
                        .place = "bucket 0",
                        .asked = Time(1ms * number),
                        .begun = Time(1ms * number + 1us),
                        .completed = std::nullopt};
    if (number % 2 == 0) expected.completed = Time(1ms * number + 2us);
    EXPECT_EQ(seen[i], expected) << i;
  }
}

// Several jobs of one process are on one page, one after another (recovery) or beside each other.
TEST_F(StatusPages, AnotherJobOfTheProcessGoesOnWithIt) {
  auto first = open();
  first.complete_step(4);
  const auto record = first.ask(first.name_group("world"), all_reduce(9), Time(1s));
  auto second = open();
  EXPECT_EQ(read()->step, 4);
  EXPECT_EQ(read()->begun, (CollectiveMark{"all_reduce", 9, "world"}));
  const auto other = second.name_group("pair");
  second.ask(other, barrier(1), Time(2s));
  const auto again = second.name_group("world");
  EXPECT_NE(again, other);
  second.ask(again, all_reduce(1), Time(3s));
  StatusPage::complete(record, Time(4s));
  const auto calls = read_calls(path(), {})->groups;
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].calls.size(), 1U) << "the calls of the group before with this name are forgotten";
  EXPECT_EQ(calls[0].calls[0].number, 1U);
  EXPECT_EQ(calls[1].calls.size(), 1U);
}

TEST_F(StatusPages, ReportsWhatATrainingProgramSaysOfItself) {
  auto page = open();
  TrainingProgress training{.total_steps = 100,
                            .epoch = 2,
                            .saved_step = 50,
                            .samples = 6400,
                            .blocked = 5ms,
                            .doing = TimePart::evaluate,
                            .metrics = {{"loss", 60, 0.25}, {std::string(100, 'n'), 60, -1}},
                            .work_dir = "/runs/a",
                            .serves = true};
  training.times[static_cast<std::size_t>(TimePart::compute)] = 3s;
  page.report(training);
  training.metrics[1].name.resize(63);
  EXPECT_EQ(read_page(path(), {})->training, training);
  training = {.samples = 7000, .doing = {}, .metrics = {{"loss", 61, 0.125}}, .work_dir = "/another"};
  page.report(training);
  const auto seen = read_page(path(), {})->training;
  EXPECT_EQ(seen.total_steps, std::nullopt);
  EXPECT_FALSE(seen.serves);
  EXPECT_EQ(seen.metrics[0], (MetricValue{"loss", 61, 0.125}));
  EXPECT_EQ(seen.work_dir, "/runs/a") << "it does not change";
  EXPECT_EQ(read_page("/no/such/file", {}), std::nullopt);
  training.metrics.assign(40, {"m", 1, 1.0});
  page.report(training);
  EXPECT_EQ(read_page(path(), {})->training.metrics.size(), 16U);
}

TEST_F(StatusPages, StaysAsItWasWhenItsProcessIsKilled) {
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    auto page = open();
    page.complete_step(3);
    page.ask(page.name_group("world"), all_reduce(40), {});
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(outcomes[0].status.signal, SIGKILL);
  EXPECT_EQ(read()->step, 3);
  EXPECT_EQ(read()->begun, (CollectiveMark{"all_reduce", 40, "world"}));
  EXPECT_EQ(read()->ended, std::nullopt);
  // The next to have it starts from the beginning.
  const auto page = open();
  EXPECT_EQ(read(), RankProgress{});
}

// A reader beside a writer sees whole calls.
TEST_F(StatusPages, AReaderLeavesOutACallThatChanges) {
  auto page = open();
  const auto world = page.name_group("world");
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= 300'000; ++i) {
      auto call = all_reduce(i);
      call.bytes = 2 * i;
      StatusPage::complete(page.ask(world, call, Time(1us * i)), Time(1us * i));
    }
    done = true;
  });
  std::size_t seen = 0;
  while (!done) {
    for (const auto& group : page.calls()) {
      for (const auto& call : group.calls) {
        ASSERT_EQ(call.bytes, 2 * call.number);
        ASSERT_EQ(call.asked, Time(1us * call.number));
        ++seen;
      }
    }
  }
  writer.join();
  EXPECT_GT(seen, 0U);
}

TEST_F(StatusPages, ItsProcessReadsItWithoutAFile) {
  auto page = StatusPage::open({});
  EXPECT_EQ(page.content({}).progress, RankProgress{});
  page.complete_step(7);
  page.ask(page.name_group("world"), all_reduce(40), Time(5s));
  EXPECT_EQ(page.content(Time(9s)).progress,
            (RankProgress{7, 0, CollectiveMark{"all_reduce", 40, "world"}, std::nullopt, 4000ms}));
  EXPECT_EQ(StatusPage().content({}).progress, RankProgress{});
}

TEST_F(StatusPages, NobodyFailsForTheLackOfOne) {
  for (const Environment& environment : {Environment{}, Environment{{"LOCKSTEP_STATUS_FILE", ""}},
                                         Environment{{"LOCKSTEP_STATUS_FILE", "/no/such/x"}}}) {
    auto page = StatusPage::open(environment);
    StatusPage::complete(page.ask(page.name_group("world"), barrier(1), {}), {});
    page.complete_step(1);
    page.complete_backward();
  }
  std::ofstream(path()) << "no page";
  EXPECT_EQ(read(), std::nullopt);
  for (const auto size : {10'000, 2'000'000}) {
    std::ofstream(path()) << std::string(static_cast<std::size_t>(size), 'x');
    EXPECT_EQ(read(), std::nullopt);
    EXPECT_EQ(read_calls(path(), {}), std::nullopt);
  }
}

// A page without room on the disk would end its process when it is first written to.
TEST_F(StatusPages, AFullDiskOnlyCostsThePage) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  const TemporaryFolder folder;
  test::fork_ranks(1, {}, [&](int) {
    test::mount_small_disk(folder.path(), 64 << 10);
    std::ofstream(folder.path() / "full") << std::string(1 << 20, 'x');
    EXPECT_EQ(std::filesystem::space(folder.path()).available, 0U);
    const auto file = folder.path() / "page";
    auto page = StatusPage::open({{"LOCKSTEP_STATUS_FILE", file.string()}});
    page.complete_step(1);
    EXPECT_FALSE(read_status_page(file, {})) << "nobody takes what could not be written for a page";
    EXPECT_EQ(page.content({}).progress.step, 1) << "this process has one all the same";
  });
}

}  // namespace
}  // namespace lockstep
