// Two hosts with a real network between them: what crosses it is counted by the kernel.
#include "comm/hierarchy/two_hosts.h"
#include "comm/suite.h"

#include <csignal>
#include <functional>
#include <optional>

namespace lockstep::test {
namespace {

constexpr std::int64_t kElements = 2'000'000;  // float32: 8 MB
constexpr std::int64_t kBytes = 4 * kElements;
constexpr int kRanks = 4;

// Ranks of a host do not follow one another: 0 and 2 on the first, 1 and 3 on the second.
int host_of(int rank) { return rank % 2; }

Group join_on(int host, Rank& rank, const TwoHosts& hosts, std::string_view backend) {
  hosts.enter(host);
  World world = rank.world();
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = TwoHosts::address(0);
  world.master_port = 29500;  // the namespace is new, so all ports are free
  world.local_size = 0;       // as a launcher leaves it that does not say it: not all ranks are here
  return connect(world, RankOptions::test_group_options(backend));
}

Group join(Rank& rank, const TwoHosts& hosts, std::string_view backend) {
  return join_on(host_of(rank.rank()), rank, hosts, backend);
}

/// Bytes over the cable from the first host and to it.
Traffic during(const Group& group, const std::function<void()>& call) {
  barrier(group);
  const auto before = traffic();
  call();
  barrier(group);
  const auto after = traffic();
  return {.sent = after.sent - before.sent, .received = after.received - before.received};
}

// Headers, acknowledgements, the barriers and questions to the store come on top; a second time would be 100 %.
void expect_about(std::int64_t actual, std::int64_t expected, const char* what) {
  constexpr std::int64_t kOverhead = kBytes / 4;
  EXPECT_GE(actual, expected) << what;
  EXPECT_LE(actual, expected + kOverhead) << what;
}

class HierarchyNetwork : public testing::Test {
 protected:
  void SetUp() override {
    if (mpirun_size()) GTEST_SKIP() << "makes its own ranks";
    try {
      hosts_.emplace();
    } catch (const Error& error) {
      GTEST_SKIP() << "no network namespaces here: " << error.what();
    }
  }

  std::optional<TwoHosts> hosts_;
};

// 0 and 1 on the first host, 2 and 3 on the second: the ranks of a host are a subtree of the sum.
TEST_F(HierarchyNetwork, IsCrossedOnceForEachHost) {
  run_ranks(kRanks, {}, [&](Rank& rank) {
    const int host = rank.rank() / 2;
    const auto group = join_on(host, rank, *hosts_, "auto");
    ASSERT_EQ(group.backend(), "hierarchy");
    ASSERT_EQ(group.local_size(), 2);

    auto tensor = numbers(rank.rank(), {kElements}, at::kFloat);
    auto seen = during(group, [&] { all_reduce(tensor, group); });
    EXPECT_TRUE(same(tensor, reduced_numbers(kRanks, {kElements}, at::kFloat, ReduceOp::sum)));
    // 2 (H - 1) / H of the tensor from each of H hosts, and to it.
    expect_about(seen.sent, kBytes, "all_reduce");
    expect_about(seen.received, kBytes, "all_reduce");

    tensor = numbers(rank.rank(), {kElements}, at::kFloat);
    seen = during(group, [&] { broadcast(tensor, group, 3); });
    EXPECT_TRUE(same(tensor, numbers(3, {kElements}, at::kFloat)));
    const bool first = host == 0;
    expect_about(first ? seen.received : seen.sent, kBytes, "broadcast");
    expect_about(first ? seen.sent : seen.received, 0, "broadcast, back");

    const auto part = numbers(rank.rank(), {kElements / kRanks}, at::kFloat);
    at::Tensor all;
    seen = during(group, [&] { all = all_gather(part, group); });
    for (int from = 0; from < kRanks; ++from) {
      EXPECT_TRUE(same(all.chunk(kRanks)[static_cast<std::size_t>(from)], numbers(from, part.sizes(), at::kFloat)));
    }
    // Two ranks' parts go out, those of the other two come in.
    expect_about(seen.sent, kBytes / 2, "all_gather");
    expect_about(seen.received, kBytes / 2, "all_gather");
  });
}

// Each rank is a subtree of its own: half a tensor for each of two, and the other half of the result.
TEST_F(HierarchyNetwork, IsCrossedByEachSubtreeOfRanksThatDoNotFollowOneAnother) {
  run_ranks(kRanks, {}, [&](Rank& rank) {
    const auto group = join(rank, *hosts_, "auto");
    ASSERT_EQ(group.backend(), "hierarchy");
    auto tensor = numbers(rank.rank(), {kElements}, at::kFloat);
    const auto seen = during(group, [&] { all_reduce(tensor, group); });
    EXPECT_TRUE(same(tensor, reduced_numbers(kRanks, {kElements}, at::kFloat, ReduceOp::sum)));
    expect_about(seen.sent, 3 * kBytes / 2, "all_reduce");
    expect_about(seen.received, 3 * kBytes / 2, "all_reduce");
  });
}

// What it is measured against: the same ranks with tcp alone, which knows nothing of hosts.
TEST_F(HierarchyNetwork, WouldBeCrossedOnceForEachRankByTcpAlone) {
  run_ranks(kRanks, {}, [&](Rank& rank) {
    const auto group = join(rank, *hosts_, "tcp");
    auto tensor = numbers(rank.rank(), {kElements}, at::kFloat);
    const auto seen = during(group, [&] { all_reduce(tensor, group); });
    EXPECT_TRUE(same(tensor, reduced_numbers(kRanks, {kElements}, at::kFloat, ReduceOp::sum)));
    EXPECT_GE(seen.sent, 2 * kBytes);
    EXPECT_GE(seen.received, 2 * kBytes);
  });
}

// The sender is done when the kernel has its bytes, long before the slow cable has carried them; the store goes with
// it.
TEST_F(HierarchyNetwork, RanksThatAreDoneMayLeaveWhileOthersStillReceive) {
  run_ranks(kRanks, {}, [&](Rank& rank) {
    const auto group = join(rank, *hosts_, "auto").unchecked();
    auto tensor = numbers(rank.rank(), {kElements}, at::kFloat);
    broadcast(tensor, group, 0);
    EXPECT_TRUE(same(tensor, numbers(0, {kElements}, at::kFloat)));
  });
}

TEST_F(HierarchyNetwork, ARankThatDiesOnOneHostIsNamedOnTheOther) {
  constexpr int kVictim = 3;
  const auto outcomes = rank_outcomes(kRanks, {}, [&](Rank& rank) {
    const auto group = join(rank, *hosts_, "auto").unchecked();
    barrier(group);
    if (rank.rank() == kVictim) rank.kill_self();
    auto tensor = at::ones({kElements});
    const auto error = error_of([&] { all_reduce(tensor, group); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    expect_words(error, {"rank 3 (pid"});
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.ok(), outcome.rank != kVictim) << describe(outcome);
  EXPECT_EQ(outcomes[kVictim].status.signal, SIGKILL);
}

// No connection is closed, so only the kernel's own questions tell: who waits never sends anything, and who has sent
// something gets no answer.
TEST_F(HierarchyNetwork, AHostThatVanishesIsNamedOnTheOther) {
  for (const auto* backend : {"hierarchy", "tcp"}) {
    for (const bool waits : {true, false}) {
      hosts_.emplace();  // whole again
      const auto outcomes = rank_outcomes(kRanks, {}, [&](Rank& rank) {
        ::setenv("LOCKSTEP_HOST_TIMEOUT_S", "3", 1);
        const auto group = join(rank, *hosts_, backend).unchecked();
        barrier(group);
        if (rank.rank() == 1) TwoHosts::unplug();
        auto tensor = at::ones({kElements});
        const int opposite = rank.rank() ^ 1;
        const auto error = error_of([&] { waits ? receive(tensor, group, opposite) : all_reduce(tensor, group); });
        EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
        // Whoever is seen first of the other host.
        const std::string text = error.what();
        const bool named = text.find("rank 1 (pid") != text.npos || text.find("rank 3 (pid") != text.npos;
        EXPECT_TRUE(host_of(rank.rank()) != 0 || named) << text;
      });
      for (const auto& outcome : outcomes) {
        EXPECT_TRUE(outcome.ok()) << backend << (waits ? " waits " : " sends ") << describe(outcome);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::test
