// What Gloo's own threads do to the machine.
#include "comm/suite.h"

#include <sched.h>

#include <charconv>
#include <filesystem>
#include <map>

namespace lockstep::test {
namespace {

/// How many threads of this process are scheduled in which way.
std::map<int, int> threads_by_policy() {
  std::map<int, int> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto name = task.path().filename().string();
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    ++threads[sched_getscheduler(id)];
  }
  return threads;
}

// Where cores are as many as ranks, training over Gloo took up to three times as long when it did not.
TEST(Gloo, TheThreadThatReadsTakesTheCoreFromNobody) {
  if (sched_getscheduler(0) != SCHED_OTHER) GTEST_SKIP() << "these tests were started with another policy";
  run_ranks(2, {.group = RankOptions::test_group_options("gloo")}, [](Rank& rank) {
    barrier(rank.group());
    const auto threads = threads_by_policy();
    ASSERT_TRUE(threads.contains(SCHED_BATCH)) << "no thread has it";
    EXPECT_EQ(threads.at(SCHED_BATCH), 1);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER) << "this thread keeps its own";
  });
}

}  // namespace
}  // namespace lockstep::test
