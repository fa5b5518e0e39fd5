// Waits over the tcp backend, and their ends.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/backends.h>

#include "comm/suite.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

TEST(Tcp, ClosingAGroupEndsTheWaitForAMessageThatIsOnItsWay) {
  RankOptions options{.group = RankOptions::test_group_options("tcp")};
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

/// The number of threads of this process.
std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(Tcp, AGroupHasOneThread) {
  RankOptions options{.group = RankOptions::test_group_options("shm")};
  run_ranks(2, options, [](Rank& rank) {
    barrier(rank.group());
    const auto before = threads();
    auto tcp = rank.options();
    tcp.backend = "tcp";
    World world = rank.world();
    world.store_path += "_tcp";
    const auto group = connect(world, tcp);
    barrier(group);
    EXPECT_EQ(threads(), before + 1);
  });
}

// The thread that waits serves all connections of the group, and so those of operations for which others wait; what
// another thread completes ends its wait, too.
TEST(Tcp, ThreadsThatWaitForDifferentOperationsOfAGroupAllGoOn) {
  run_ranks(2, {.group = RankOptions::test_group_options("tcp")}, [](Rank& rank) {
    const auto group = rank.group().unchecked();
    const int peer = 1 - rank.rank();
    for (int round = 0; round < 200; ++round) {
      std::vector<at::Tensor> sent, received;
      std::vector<Work> works;
      for (int tag = 0; tag < 4; ++tag) {
        const std::int64_t count = tag % 2 == 0 ? 10 : 200'000;
        sent.push_back(at::full({count}, static_cast<float>(round + tag), at::kFloat));
        received.push_back(at::zeros({count}));
      }
      for (std::size_t tag = 0; tag < 4; ++tag) {
        works.push_back(receive_async(received[tag], group, peer, static_cast<int>(tag)));
      }
      std::vector<std::thread> waiting;
      for (auto& work : works) waiting.emplace_back([&work] { work.wait(); });
      std::vector<Work> sends;
      for (std::size_t tag = 4; tag-- > 0;) sends.push_back(send_async(sent[tag], group, peer, static_cast<int>(tag)));
      for (auto& thread : waiting) thread.join();
      for (auto& work : sends) work.wait();
      for (std::size_t tag = 0; tag < 4; ++tag) ASSERT_TRUE(same(received[tag], sent[tag])) << round;
    }
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

TEST(Tcp, ARankThatTellsItsAddressAndConnectsToNobodyIsATimeout) {
  const TemporaryFolder folder;
  const auto outcomes = fork_outcomes(2, {.deadline = std::chrono::seconds(16)}, [&](int rank) {
    detail::BackendContext context;
    context.rank = rank;
    context.size = 2;
    context.hosts = {0, 0};
    context.world_ranks = {0, 1};
    context.start_timeout = context.timeout = std::chrono::seconds(4);
    context.while_connecting = [](const std::vector<int>&) {};
    const auto file = c10::make_intrusive<c10d::FileStore>(folder.path() / "store", 2);
    context.store = file;
    if (rank == 1) context.store = c10::make_intrusive<StoppingStore>("", file);
    const auto error = error_of([&] { detail::backend_called("tcp").make(context); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
  });
  EXPECT_TRUE(outcomes[0].ok()) << describe(outcomes[0]);
  EXPECT_TRUE(outcomes[1].hit_deadline) << "it is stopped";
}

}  // namespace
}  // namespace lockstep::test
