// Operations that are under way together, in whatever order ranks look after them; and what goes wrong meanwhile.
#include "comm/suite.h"

#include <chrono>
#include <csignal>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

constexpr int kDtype = static_cast<int>(at::kFloat);

// Four ranks on two hosts, rank 0 leading one and rank 1 the other.
RankOptions two_by_two() {
  RankOptions options;
  options.group.backend = "hierarchy";
  options.hosts = {"alpha", "beta", "alpha", "beta"};
  options.rendezvous = Rendezvous::tcp;
  return options;
}

TEST(HierarchyWork, ManyBucketsProgressInAnyOrderOfTestAndWait) {
  run_ranks(4, two_by_two(), [](Rank& self) {
    const auto group = self.group().unchecked();
    constexpr int kBuckets = 20;
    for (int round = 0; round < 3; ++round) {
      std::vector<at::Tensor> buckets;
      std::vector<Work> works;
      for (int i = 0; i < kBuckets; ++i) {
        const std::int64_t count = 100 + 9000 * i;
        buckets.push_back(i % 3 == 0 ? at::empty({count}) : allocate(group, count, kDtype));
        buckets.back().copy_(numbers(self.rank() + i, {count}, at::kFloat));
      }
      for (int i = 0; i < kBuckets; ++i) {
        auto& bucket = buckets[static_cast<std::size_t>(i)];
        works.push_back(i % 4 == 3 ? broadcast_async(bucket, group, i % 4) : all_reduce_async(bucket, group));
        if ((i + self.rank()) % 5 == 0) works[static_cast<std::size_t>(i / 2)].test();
      }
      for (int k = 0; k < kBuckets; ++k) {
        const int i = self.rank() % 2 == 0 ? kBuckets - 1 - k : k;
        works[static_cast<std::size_t>(i)].wait();
        const auto& bucket = buckets[static_cast<std::size_t>(i)];
        auto expected = numbers(i, bucket.sizes(), at::kFloat);
        for (int rank = 1; rank < 4; ++rank) expected += numbers(rank + i, bucket.sizes(), at::kFloat);
        if (i % 4 == 3) expected = numbers(3 + i, bucket.sizes(), at::kFloat);
        ASSERT_TRUE(same(bucket, expected)) << i;
      }
    }
  });
}

TEST(HierarchyWork, TestBringsItToItsEndWithoutWait) {
  run_ranks(4, two_by_two(), [](Rank& self) {
    auto tensor = numbers(self.rank(), {300000}, at::kFloat);
    Work work = all_reduce_async(tensor, self.group());
    while (!work.test()) std::this_thread::yield();
    EXPECT_TRUE(same(tensor, reduced_numbers(4, {300000}, at::kFloat, ReduceOp::sum)));
  });
}

TEST(HierarchyWork, AForgottenWorkKeepsItsTensorsUntilItIsDone) {
  run_ranks(4, two_by_two(), [](Rank& self) {
    const auto group = self.group().unchecked();
    for (int i = 0; i < 20; ++i) {
      auto tensor = at::full({100000}, 1.0F);
      all_reduce_async(tensor, group);  // neither the tensor nor the work is kept
    }
    auto last = at::full({10}, static_cast<float>(self.rank()));
    all_reduce(last, group);
    EXPECT_TRUE(same(last, at::full({10}, 6.0F)));
  });
}

// Some ranks wait for the first operation before they come to the second, while others, on whom the first depends,
// already wait in the second for all to come.
TEST(HierarchyWork, EarlierOperationsGoOnWhileALaterCallWaits) {
  for (const bool early_waits : {false, true}) {
    run_ranks(4, two_by_two(), [&](Rank& self) {
      const auto unchecked = self.group().unchecked();
      const auto waits_first = (self.rank() >= 2) == early_waits;
      const auto sum = reduced_numbers(4, {200000}, at::kFloat, ReduceOp::sum);
      auto first = numbers(self.rank(), {200000}, at::kFloat);

      Work work = all_reduce_async(first, unchecked);  // then a call that compares arguments
      if (waits_first) work.wait();
      auto second = numbers(self.rank(), {200000}, at::kFloat);
      all_reduce(second, self.group());
      work.wait();
      EXPECT_TRUE(same(first, sum));
      EXPECT_TRUE(same(second, sum));

      first.copy_(numbers(self.rank(), {200000}, at::kFloat));
      work = all_reduce_async(first, unchecked);  // then memory
      if (waits_first) work.wait();
      EXPECT_EQ(allocate(unchecked, 1000, kDtype).numel(), 1000);
      work.wait();
      EXPECT_TRUE(same(first, sum));

      first.copy_(numbers(self.rank(), {200000}, at::kFloat));
      work = all_reduce_async(first, unchecked);  // then a message, from those who wait
      auto message = at::full({3}, self.rank());
      const int peer = self.rank() ^ 2;  // on this host
      if (waits_first) {
        work.wait();
        send(message, unchecked, peer);
      } else {
        receive(message, unchecked, peer);
        work.wait();
        EXPECT_TRUE(same(message, at::full({3}, peer)));
      }
      EXPECT_TRUE(same(first, sum));
    });
  }
}

TEST(HierarchyFailures, MessageOfAnotherLengthNamesTheRankInTheGroup) {
  run_ranks(4, two_by_two(), [](Rank& self) {
    barrier(self.group());
    auto tensor = at::ones({self.rank() == 1 ? 4 : 5});
    if (self.rank() == 1) send(tensor, self.group(), 3);
    if (self.rank() == 3) {
      const auto error = error_of([&] { receive(tensor, self.group(), 1); });
      EXPECT_EQ(error.kind(), ErrorKind::mismatch);
      expect_words(error, {"message of rank 1", "16 bytes", "20 bytes"});
    } else {
      expect_words(error_of([&] { barrier(self.group()); }), {"rank 3 (pid"});
    }
  });
}

TEST(HierarchyFailures, UncheckedCallsThatDifferOnOneHostEndTheWaitOfAll) {
  run_ranks(4, two_by_two(), [](Rank& self) {
    const auto group = self.group().unchecked();
    barrier(group);
    auto tensor = at::ones({self.rank() == 3 ? 8 : 7});
    const auto error = error_of([&] { all_reduce(tensor, group); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    expect_words(error, {"reduce sum of float32[7]", "float32[8]"});
  });
}

TEST(HierarchyFailures, MemoryThatOneHostLacksIsAnErrorOnAll) {
  run_ranks(4, two_by_two(), [](Rank& self) {
    const auto error = error_of([&] { allocate(self.group(), std::int64_t{1} << 44, kDtype); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    expect_words(error, {"host of rank 0", "shared memory", "GiB left"});
    auto small = allocate(self.group(), 10, kDtype);
    small.fill_(1);
    all_reduce(small, self.group());
    EXPECT_TRUE(same(small, at::full({10}, 4.0F)));
  });
}

// Each rank in turn, leading its host or not, dies in the middle of work: all others end soon and name it.
TEST(HierarchyFailures, AKilledRankEndsTheWaitOfAllAndIsNamed) {
  for (int victim = 0; victim < 4; ++victim) {
    const auto outcomes = rank_outcomes(4, two_by_two(), [&](Rank& self) {
      const auto group = self.group().unchecked();
      auto shared = allocate(group, 1 << 18, kDtype);
      auto ordinary = at::zeros({1 << 16});
      std::jthread killer;
      if (self.rank() == victim) {
        killer = std::jthread([&] {
          std::this_thread::sleep_for(50ms + 7ms * victim);
          self.kill_self();
        });
      }
      const auto error = error_of([&] {
        for (;;) {
          auto work = all_reduce_async(shared, group);
          all_gather(ordinary, group);
          work.wait();
        }
      });
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
      expect_words(error, {"rank " + std::to_string(victim) + " (pid"});
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.ok(), outcome.rank != victim) << describe(outcome);
    EXPECT_EQ(outcomes[static_cast<std::size_t>(victim)].status.signal, SIGKILL);
  }
}

}  // namespace
}  // namespace lockstep::test
