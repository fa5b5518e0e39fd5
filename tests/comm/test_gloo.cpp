// What Gloo's own threads do to the machine.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/backends.h>

#include "comm/suite.h"

#include <sched.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

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

// Gloo does not wake who waits for a message of which a part has come, when its group is closed.
TEST(Gloo, ClosingAGroupEndsTheWaitForAMessageThatIsOnItsWay) {
  RankOptions options{.group = RankOptions::test_group_options("gloo")};
  options.deadline = std::chrono::seconds(30);
  options.group.timeout = std::chrono::minutes(5);  // what a wait that is not woken takes
  run_ranks(2, options, [](Rank& rank) {
    auto message = rank.rank() == 0 ? at::ones({std::int64_t{256} << 20}, at::kByte)
                                    : at::zeros({std::int64_t{256} << 20}, at::kByte);
    barrier(rank.group());
    auto work = rank.rank() == 0 ? send_async(message, rank.group(), 1) : receive_async(message, rank.group(), 0);
    if (rank.rank() == 1) {
      const volatile auto* first = message.data_ptr<std::uint8_t>();
      while (*first == 0) std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(1));  // of its message a part has gone
    }
    rank.group().abort("a test");
    EXPECT_THROW(work.wait(), Error);
  });
}

// Stops this process once it has told the others its address.
class StoppingStore : public c10d::PrefixStore {
 public:
  using c10d::PrefixStore::PrefixStore;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    c10d::PrefixStore::set(key, value);
    raise(SIGSTOP);
  }
};

// Gloo alone would wait five times as long.
TEST(Gloo, ARankThatTellsItsAddressAndConnectsToNobodyIsATimeout) {
  const TemporaryFolder folder;
  const auto outcomes = fork_outcomes(2, {.deadline = std::chrono::seconds(16)}, [&](int rank) {
    detail::BackendContext context;
    context.rank = rank;
    context.size = 2;
    context.hosts = {0, 0};
    context.start_timeout = context.timeout = std::chrono::seconds(4);
    context.while_connecting = [](const std::vector<int>&) {};
    const auto file = c10::make_intrusive<c10d::FileStore>(folder.path() / "store", 2);
    context.store = file;
    if (rank == 1) context.store = c10::make_intrusive<StoppingStore>("", file);
    const auto error = error_of([&] { detail::backend_called("gloo").make(context); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
  });
  EXPECT_TRUE(outcomes[0].ok()) << describe(outcomes[0]);
  EXPECT_TRUE(outcomes[1].hit_deadline) << "it is stopped";
}

}  // namespace
}  // namespace lockstep::test
