// How far ahead of each other workers may be.
#include <lockstep/parameter_servers/server.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace lockstep::parameter_servers {
namespace {

using Workers = std::vector<std::size_t>;

TEST(WorkerClocks, NameWhoIsWaitedFor) {
  WorkerClocks clocks(3, 5, 0);
  EXPECT_EQ(clocks.awaited_to_begin(5), Workers());
  clocks.complete_step(1);
  EXPECT_EQ(clocks.of(1), 6);
  EXPECT_EQ(clocks.slowest(), 5);
  EXPECT_EQ(clocks.awaited_to_begin(6), (Workers{0, 2}));
  EXPECT_EQ(clocks.behind(6), (Workers{0, 2}));
  clocks.complete_step(0);
  clocks.finish(2);  // nobody waits for its steps, but what needs all of them is not there
  EXPECT_EQ(clocks.awaited_to_begin(6), Workers());
  EXPECT_EQ(clocks.behind(6), Workers{2});
}

/// Workers of very different speeds, each of which begins a step as soon as it may.
TEST(WorkerClocks, NeverDifferByMoreThanTheyMay) {
  constexpr std::int64_t kSteps = 200;
  for (const std::int64_t most_ahead :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, std::numeric_limits<std::int64_t>::max()}) {
    WorkerClocks clocks(3, 0, most_ahead);
    std::mt19937 random(1);
    std::int64_t farthest = 0;
    while (clocks.slowest() < kSteps) {
      const std::size_t worker = random() % 10 == 0 ? 0 : random() % 3;
      const auto step = clocks.of(worker);
      if (step == kSteps || !clocks.awaited_to_begin(step).empty()) continue;
      // It has begun, and will have completed a step more than when it was allowed to.
      farthest = std::max(farthest, step - clocks.slowest());
      clocks.complete_step(worker);
    }
    EXPECT_LE(farthest, most_ahead);
    if (most_ahead <= 7) {
      EXPECT_EQ(farthest, most_ahead) << "as far as it may";
    }
  }
}

}  // namespace
}  // namespace lockstep::parameter_servers
