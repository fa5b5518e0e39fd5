// The shm backend through tensors: what is its own, beyond the suite that all backends pass.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "comm/suite.h"
#include "support/ranks.h"
#include "support/shared_memory.h"

namespace lockstep::test {
namespace {

RankOptions shm_options() {
  RankOptions options;
  options.group.backend = "shm";
  return options;
}

void run_shm(int ranks, const RankBody& body) { run_ranks(ranks, shm_options(), body); }

constexpr int kFloat = static_cast<int>(at::kFloat);

// Values without structure, so that the order of additions shows in the last bits.
at::Tensor noise(int rank, std::int64_t count, int seed = 0) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * seed + rank));
  return at::randn({count}, generator, at::TensorOptions(at::kFloat)) * at::pow(10.0F, at::randn({count}, generator));
}

at::Tensor sum_in_order(int ranks, std::int64_t count, int seed = 0) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(noise(rank, count, seed));
  return in_tree_order(all);
}

class ShmSums : public testing::TestWithParam<int> {};

TEST_P(ShmSums, AreTheSameBitsOnEveryPathAndEveryRank) {
  run_shm(GetParam(), [](Rank& self) {
    Group group = self.group();
    // One step, sliced through staging, larger than all staging buffers together; and no multiple of anything.
    for (const std::int64_t count : {1L, 77L, 8192L, 8193L, 65537L, 1000003L}) {
      const auto expected = sum_in_order(self.size(), count);
      at::Tensor ordinary = noise(self.rank(), count);
      at::Tensor shared = allocate(group, count, kFloat);
      shared.copy_(noise(self.rank(), count));
      all_reduce(ordinary, group);
      all_reduce(shared, group);
      ASSERT_TRUE(same(ordinary, expected)) << count;
      ASSERT_TRUE(same(shared, expected)) << count;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShmSums, testing::Values(2, 3, 4, 7));

TEST(ShmMemory, ViewsOfSharedTensorsAreReducedInPlace) {
  run_shm(3, [](Rank& self) {
    Group group = self.group();
    at::Tensor bucket = allocate(group, 300000, kFloat);
    ASSERT_TRUE(same(bucket, at::zeros({300000})));
    at::Tensor first = bucket.narrow(0, 0, 100000).view({100, 1000});
    at::Tensor second = bucket.narrow(0, 100000, 200000);
    first.fill_(self.rank() + 1);
    second.copy_(noise(self.rank(), 200000));
    Work one = all_reduce_async(first, group);
    Work two = all_reduce_async(second, group, ReduceOp::sum);
    two.wait();
    one.wait();
    EXPECT_TRUE(same(bucket.narrow(0, 0, 100000), at::full({100000}, 6.0F)));
    EXPECT_TRUE(same(bucket.narrow(0, 100000, 200000), sum_in_order(3, 200000)));
  });
}

TEST(ShmMemory, OtherCollectivesUseItWhereItLies) {
  run_shm(2, [](Rank& self) {
    Group group = self.group();
    constexpr std::int64_t kCount = 50000;
    at::Tensor parameters = allocate(group, 2 * kCount, kFloat);
    at::Tensor mine = parameters.narrow(0, self.rank() * kCount, kCount);
    mine.copy_(noise(self.rank(), kCount));
    all_gather_async(parameters, mine, group).wait();
    EXPECT_TRUE(same(parameters, at::cat({noise(0, kCount), noise(1, kCount)})));

    at::Tensor gradients = allocate(group, 2 * kCount, kFloat);
    gradients.copy_(noise(self.rank(), 2 * kCount));
    at::Tensor slice = gradients.narrow(0, self.rank() * kCount, kCount);
    reduce_scatter_async(slice, gradients, group).wait();
    EXPECT_TRUE(same(slice, sum_in_order(2, 2 * kCount).narrow(0, self.rank() * kCount, kCount)));

    broadcast(gradients, group, 1);
    reduce(parameters, group, 0, ReduceOp::max);
    const auto both = at::cat({noise(0, kCount), noise(1, kCount)});
    EXPECT_TRUE(same(parameters, both));
  });
}

TEST(ShmMemory, OutlivesItsGroupAndIsFreedWithItsTensor) {
  run_shm(2, [](Rank& self) {
    at::Tensor tensor;
    {
      auto group = self.group().subgroup({0, 1});
      tensor = allocate(*group, 1 << 20, kFloat);
      tensor.fill_(self.rank());
      barrier(*group);
    }
    EXPECT_TRUE(same(tensor, at::full({1 << 20}, static_cast<float>(self.rank()))));
    // Each is as large as a third of what all of them together may take: they must be freed on the way.
    Group group = self.group();
    for (int i = 0; i < 40; ++i) {
      at::Tensor large = allocate(group, 16 << 20, kFloat);
      large.narrow(0, 0, 1).fill_(1);
      all_reduce(large, group);
    }
  });
}

TEST(ShmMemory, MoreThanThereIsIsAnErrorOnEveryRankBeforeAnythingIsTaken) {
  run_shm(2, [](Rank& self) {
    Group group = self.group();
    for (const std::int64_t count : {std::int64_t{1} << 44, std::numeric_limits<std::int64_t>::max()}) {
      const Error error = error_of([&] { allocate(group, count, kFloat); });
      EXPECT_EQ(error.kind(), ErrorKind::io);
      expect_words(error, {"rank 0 cannot get shared memory", "on each of 2 ranks", "GiB left"});
    }
    at::Tensor small = allocate(group, 10, kFloat);
    small.fill_(1);
    all_reduce(small, group);
    EXPECT_TRUE(same(small, at::full({10}, 2.0F)));
  });
}

TEST(ShmWork, ManyBucketsProgressInAnyOrderOfTestAndWait) {
  run_shm(4, [](Rank& self) {
    Group group = self.group().unchecked();
    constexpr int kBuckets = 30;
    for (int round = 0; round < 3; ++round) {
      std::vector<at::Tensor> buckets;
      std::vector<Work> works;
      for (int i = 0; i < kBuckets; ++i) {
        const std::int64_t count = 100 + 3000 * i;
        buckets.push_back(i % 3 == 0 ? at::empty({count}) : allocate(group, count, kFloat));
        buckets.back().copy_(noise(self.rank(), count, i));
      }
      for (int i = 0; i < kBuckets; ++i) {
        works.push_back(all_reduce_async(buckets[static_cast<std::size_t>(i)], group));
        if ((i + self.rank()) % 5 == 0) works[static_cast<std::size_t>(i / 2)].test();
      }
      for (int k = 0; k < kBuckets; ++k) {
        const int i = self.rank() % 2 == 0 ? kBuckets - 1 - k : k;
        works[static_cast<std::size_t>(i)].wait();
        const auto& bucket = buckets[static_cast<std::size_t>(i)];
        ASSERT_TRUE(same(bucket, sum_in_order(4, bucket.numel(), i))) << i;
      }
    }
  });
}

TEST(ShmWork, TestBringsItToItsEndWithoutWait) {
  run_shm(2, [](Rank& self) {
    Group group = self.group();
    at::Tensor tensor = noise(self.rank(), 300000);
    Work work = all_reduce_async(tensor, group);
    while (!work.test()) std::this_thread::yield();
    work.wait();
    EXPECT_TRUE(same(tensor, sum_in_order(2, 300000)));
  });
}

TEST(ShmWork, AForgottenWorkKeepsItsTensorsUntilItIsDone) {
  run_shm(2, [](Rank& self) {
    Group group = self.group().unchecked();
    for (int i = 0; i < 20; ++i) {
      at::Tensor tensor = at::full({100000}, 1.0F);
      all_reduce_async(tensor, group);  // neither the tensor nor the work is kept
    }
    at::Tensor last = at::full({10}, static_cast<float>(self.rank()));
    all_reduce(last, group);
    EXPECT_TRUE(same(last, at::full({10}, 1.0F)));
  });
}

// Every way to move data, killed at some moment: the others end soon, name the rank, and nothing is left behind.
TEST(ShmFailures, KilledRanksLeaveNothingBehind) {
  const auto before = shared_memory_names();
  for (int victim = 0; victim < 3; ++victim) {
    const auto outcomes = rank_outcomes(3, shm_options(), [&](Rank& self) {
      Group group = self.group();
      at::Tensor shared = allocate(group, 1 << 20, kFloat);
      at::Tensor ordinary = at::zeros({1 << 18});
      std::jthread killer;
      if (self.rank() == victim) {
        killer = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20 + 7 * victim));
          self.kill_self();
        });
      }
      const Error error = error_of([&] {
        for (;;) {
          all_reduce(shared, group);
          all_reduce(ordinary, group);
          all_gather(ordinary, group);
        }
      });
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
      expect_words(error, {fmt::format("rank {}", victim)});
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.ok(), outcome.rank != victim) << describe(outcome);
    EXPECT_EQ(outcomes[static_cast<std::size_t>(victim)].status.signal, SIGKILL);
  }
  EXPECT_EQ(shared_memory_names(), before);
}

}  // namespace
}  // namespace lockstep::test
