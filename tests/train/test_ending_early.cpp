// Runs that are asked to end by a signal, and go on from there.
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/stop_signals.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <tuple>

#include "train/small_run.h"

namespace lockstep::train {
namespace {

using test::mnist;
using test::SmallRun;

test::RankOptions with_fault(const std::string& order) {
  auto options = SmallRun::small_rank_options();
  options.environment["LOCKSTEP_FAULT"] = order;
  return options;
}

/// Runs until a signal to the last rank, in a step, ends all of them after it.
void run_until(int ranks, std::int64_t step, const ResolvedRun& config) {
  const auto order = fmt::format("rank={},step={},action=term", ranks - 1, step);
  test::expect_all_ok(test::rank_outcomes(ranks, with_fault(order), [&](test::Rank& rank) {
    auto world = rank.world();
    if (world.size == 1) world.rendezvous = Rendezvous::alone;
    const auto result = run_training(config, world);
    EXPECT_EQ(result.ended_by, SIGTERM);
    EXPECT_EQ(result.steps, step);
  }));
}

class EndedEarly : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(EndedEarly, ByASignalToOneRankGoesOnBitForBit) {
  const auto [ranks, step] = GetParam();
  const auto whole = fmt::format("whole_{}_{}", ranks, step), parts = fmt::format("parts_{}_{}", ranks, step);
  mnist().run(ranks, mnist().config(whole));
  const auto config = mnist().config(parts, {"checkpoint.every_epochs=2"});
  run_until(ranks, step, config);
  const auto checkpoints = list_checkpoints(checkpoint_folder_of(config));
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].step, step);
  EXPECT_FALSE(std::filesystem::exists(mnist().work_dir(parts) / "result.json"));
  mnist().run(ranks, config);
  EXPECT_EQ(mnist().hash(whole), mnist().hash(parts));
  EXPECT_EQ(mnist().losses(whole), mnist().losses(parts));
  EXPECT_EQ(mnist().result(whole)["evaluations"].size(), mnist().result(parts)["evaluations"].size());
  EXPECT_EQ(mnist().result(whole)["evaluations"].back()["accuracy"],
            mnist().result(parts)["evaluations"].back()["accuracy"]);
}

// Within an epoch, after its last step, and after the last of all: with 2 ranks an epoch has 6 steps, alone 12.
INSTANTIATE_TEST_SUITE_P(All, EndedEarly,
                         testing::Values(std::tuple(2, 3), std::tuple(2, 6), std::tuple(2, 12), std::tuple(1, 13)),
                         [](const auto& each) {
                           return fmt::format("OnRank{}InStep{}", std::get<0>(each.param) - 1, std::get<1>(each.param));
                         });

TEST(EndingEarly, WithoutCheckpointsSavesNothingAndSaysSo) {
  const auto config = mnist().config("off", {"checkpoint.every_epochs=0"});
  run_until(2, 3, config);
  EXPECT_TRUE(list_checkpoints(checkpoint_folder_of(config)).empty());
  EXPECT_NE(test::read_file(mnist().work_dir("off") / "log/rank.0").find("nothing is saved"), std::string::npos);
}

// ---- the signals themselves

TEST(StopSignals, NotesTheFirstAndPutsBackWhatWas) {
  test::fork_ranks(1, {}, [](int) {
    ::signal(SIGHUP, SIG_DFL);  // UCX, which MPI may have loaded, takes it
    {
      const StopSignals signals;
      EXPECT_EQ(signals.noted(), std::nullopt);
      for (const int signal : {SIGUSR1, SIGTERM, SIGTERM, SIGHUP, SIGINT}) ::raise(signal);
      EXPECT_EQ(signals.noted(), SIGUSR1);
    }
    struct sigaction now {};
    for (const int signal : {SIGUSR1, SIGTERM, SIGHUP, SIGINT}) {
      ::sigaction(signal, nullptr, &now);
      EXPECT_EQ(now.sa_handler, SIG_DFL) << signal;
    }
    EXPECT_EQ(StopSignals().noted(), std::nullopt) << "what one noted is not the next one's";
  });
}

TEST(StopSignals, AreIgnoredForGoodByAProcessThatEnds) {
  test::fork_ranks(1, {}, [](int) {
    {
      StopSignals signals;
      ::raise(SIGTERM);
      signals.ignore_for_good();
      ::raise(SIGTERM);
    }
    for (const int signal : {SIGTERM, SIGUSR1, SIGHUP}) ::raise(signal);
    struct sigaction now {};
    ::sigaction(SIGINT, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
  });
}

TEST(StopSignals, ASecondInterruptEndsTheProcess) {
  const auto outcomes = test::fork_outcomes(1, {}, [](int) {
    const StopSignals signals;
    ::raise(SIGINT);
    ::raise(SIGINT);
  });
  EXPECT_EQ(outcomes[0].status.signal, SIGINT);
}

TEST(StopSignals, LeavesHandlersOfOthersAlone) {
  test::fork_ranks(1, {}, [](int) {
    ::signal(SIGHUP, SIG_IGN);
    static volatile std::sig_atomic_t own = 0;
    ::signal(SIGTERM, [](int) { own = 1; });
    const StopSignals signals;
    ::raise(SIGHUP);
    ::raise(SIGTERM);
    EXPECT_EQ(own, 1);
    EXPECT_EQ(signals.noted(), std::nullopt);
  });
}

}  // namespace
}  // namespace lockstep::train
