// How the time of whole runs divides, as result.json has it.
#include <lockstep/base/status_page.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "train/small_run.h"

namespace lockstep::train {
namespace {

using test::mnist;
using test::SmallRun;

double seconds_of(const nlohmann::json& result, std::string_view part) {
  return result.at("time").at(fmt::format("{}_s", part));
}

/// Also of the effective training time ratio.
void expect_parts_that_add_up(const nlohmann::json& result) {
  double sum = 0;
  for (const auto part : kTimeParts) {
    EXPECT_GE(seconds_of(result, part), 0) << part;
    sum += seconds_of(result, part);
  }
  const double wall = result.at("time").at("wall_s");
  EXPECT_NEAR(sum, wall, 0.01 * wall);
  const auto effective = seconds_of(result, "data") + seconds_of(result, "compute") +
                         seconds_of(result, "communicate") + seconds_of(result, "wait");
  EXPECT_NEAR(result.at("ettr").get<double>(), effective / wall, 1e-9);
  EXPECT_GT(result.at("ettr").get<double>(), 0);
}

test::RankOptions struck_by(const std::string& fault) {
  auto options = SmallRun::small_rank_options();
  options.environment["LOCKSTEP_FAULT"] = fault;
  return options;
}

TEST(TimesOfRuns, PartsAddUpToTheWallTime) {
  for (const int ranks : {1, 2}) {
    const auto name = fmt::format("times_{}", ranks);
    const auto begun = std::chrono::steady_clock::now();
    mnist().run(ranks, mnist().config(name));
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begun;
    const auto result = mnist().result(name);
    expect_parts_that_add_up(result);
    EXPECT_LE(result["time"]["wall_s"].get<double>(), whole.count() + 0.02) << "the kernel counts starts in 10 ms";
    for (const auto* part : {"start", "data", "compute", "save", "evaluate", "other"}) {
      EXPECT_GT(seconds_of(result, part), 0) << part;
    }
    EXPECT_EQ(seconds_of(result, "lost"), 0);
    EXPECT_EQ(result.contains("longest_wait"), ranks > 1);
    if (ranks > 1) {
      EXPECT_GT(seconds_of(result, "communicate"), 0);
    }
    EXPECT_THAT(test::read_file(mnist().work_dir(name) / "log/rank.0"), testing::HasSubstr(" s, of which start "));
  }
}

TEST(TimesOfRuns, OtherRanksWaitForASlowOne) {
  mnist().run(3, mnist().config("slow"), struck_by("rank=1,step=1,action=slow,ms=50"));
  const auto result = mnist().result("slow");
  expect_parts_that_add_up(result);
  EXPECT_EQ(result["shortest_wait"]["rank"], 1);
  EXPECT_NE(result["longest_wait"]["rank"], 1);
  EXPECT_GT(result["longest_wait"]["s"], result["shortest_wait"]["s"]);
  EXPECT_GT(seconds_of(result, "wait"), 0);
}

// The first process has completed steps 7 and 8, and the checkpoint is of step 6.
TEST(TimesOfRuns, StepsThatAreRepeatedAreLost) {
  const auto config = mnist().config("repeated");
  const auto outcomes = mnist().outcomes(2, config, struck_by("rank=1,step=9,action=kill,place=begin"));
  ASSERT_FALSE(outcomes[1].ok());
  ASSERT_EQ(mnist().losses("repeated").size(), 8u);
  const auto begun = std::chrono::steady_clock::now();
  mnist().run(2, config);
  const std::chrono::duration<double> second = std::chrono::steady_clock::now() - begun;
  const auto result = mnist().result("repeated");
  expect_parts_that_add_up(result);
  EXPECT_GT(seconds_of(result, "lost"), 0);
  EXPECT_LT(seconds_of(result, "lost"), second.count());
}

TEST(TimesOfRuns, ARunThatGoesOnHasTheTimesOfItsCheckpoint) {
  mnist().run(2, mnist().config("longer", {"train.epochs=1"}));
  const auto first = mnist().result("longer");
  mnist().run(2, mnist().config("longer", {"train.epochs=3"}));
  const auto whole = mnist().result("longer");
  expect_parts_that_add_up(whole);
  EXPECT_EQ(seconds_of(whole, "lost"), 0);
  for (const auto* part : {"start", "data", "compute", "evaluate"}) {
    EXPECT_GT(seconds_of(whole, part), seconds_of(first, part)) << part;
  }
}

}  // namespace
}  // namespace lockstep::train
