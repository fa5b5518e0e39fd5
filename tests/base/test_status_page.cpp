#include <lockstep/base/status_page.h>
#include <lockstep/base/temporary_folder.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/small_disk.h"
#include "support/forks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Time = StatusPage::Time;

constexpr auto kAllReduce = number_of_collective("all_reduce");
constexpr auto kBarrier = number_of_collective("barrier");

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
  page.begin(kBarrier, world, 11, Time(1s));
  page.end(kBarrier, world, 11);
  page.complete_step(7);
  page.complete_backward();
  page.complete_backward();
  page.begin(kAllReduce, page.name_group("world/1"), (std::uint64_t{1} << 48) - 1, Time(5s));
  const RankProgress expected{7, 2, CollectiveMark{"all_reduce", (std::uint64_t{1} << 48) - 1, "world/1"},
                              CollectiveMark{"barrier", 11, "world"}, 4200ms};
  EXPECT_EQ(read(Time(9200ms)), expected);
  EXPECT_EQ(read(Time(0s))->since_begun, 0ms) << "clocks that do not fit give no negative times";
}

TEST_F(StatusPages, OneThatEndsAfterALaterOneIsNotUnderWay) {
  auto page = open();
  const auto world = page.name_group("world");
  for (const int number : {1, 2, 3}) page.begin(kAllReduce, world, static_cast<std::uint64_t>(number), {});
  page.end(kAllReduce, world, 2);
  EXPECT_EQ(read()->ended, (CollectiveMark{"all_reduce", 2, "world"}));
  page.end(kAllReduce, world, 3);
  page.end(kAllReduce, world, 1);
  EXPECT_EQ(read()->ended, read()->begun);
}

TEST_F(StatusPages, NamesAFewGroupsAndCutsTheirNames) {
  auto page = open();
  for (int i = 0; i < 20; ++i) {
    const std::string name = i == 3 ? std::string(1000, 'x') : "group " + std::to_string(i);
    page.begin(kBarrier, page.name_group(name), 1, {});
    EXPECT_EQ(read()->begun->group, i >= 15 ? "" : name.substr(0, 63));
  }
}

TEST_F(StatusPages, StaysAsItWasWhenItsProcessIsKilled) {
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    auto page = open();
    page.complete_step(3);
    page.begin(kAllReduce, page.name_group("world"), 40, {});
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

TEST_F(StatusPages, ItsProcessReadsItWithoutAFile) {
  auto page = StatusPage::open({});
  EXPECT_EQ(page.progress({}), RankProgress{});
  page.complete_step(7);
  page.begin(kAllReduce, page.name_group("world"), 40, Time(5s));
  EXPECT_EQ(page.progress(Time(9s)),
            (RankProgress{7, 0, CollectiveMark{"all_reduce", 40, "world"}, std::nullopt, 4000ms}));
  EXPECT_EQ(StatusPage().progress({}), RankProgress{});
}

TEST_F(StatusPages, NobodyFailsForTheLackOfOne) {
  for (const Environment& environment : {Environment{}, Environment{{"LOCKSTEP_STATUS_FILE", ""}},
                                         Environment{{"LOCKSTEP_STATUS_FILE", "/no/such/x"}}}) {
    auto page = StatusPage::open(environment);
    page.begin(kBarrier, page.name_group("world"), 1, {});
    page.end(kBarrier, 0, 1);
    page.complete_step(1);
    page.complete_backward();
  }
  std::ofstream(path()) << "no page";
  EXPECT_EQ(read(), std::nullopt);
  std::ofstream(path()) << std::string(10'000, 'x');
  EXPECT_EQ(read(), std::nullopt);
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
    EXPECT_EQ(page.progress({}).step, 1) << "this process has one all the same";
  });
}

}  // namespace
}  // namespace lockstep
