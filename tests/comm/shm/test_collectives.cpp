// Every collective of the shared-memory core against the definition, at sizes around every boundary of the protocol.
#include "comm/shm/thread_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace lockstep::shm::test {
namespace {

using Values = std::vector<std::int32_t>;

// What rank `rank` holds at `i`; small, so that sums are exact and products do not overflow.
std::int32_t value(int rank, std::size_t i) {
  return static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(rank) * 13) % 11) - 5;
}

Values input_of(int rank, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(rank, i);
  return values;
}

std::int32_t sum_at(int ranks, std::size_t i) {
  std::int32_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

// The arguments of one collective on one rank and what must come out.
struct Case {
  Values input;   // also the output, where it works in place
  Values output;  // empty: in place
  Values expected;
};

Case make_case(Kind kind, int rank, int ranks, int root, std::size_t count) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto me = static_cast<std::size_t>(rank);
  Case c;
  const auto concatenate = [&](const auto& piece) {
    Values all;
    for (int source = 0; source < ranks; ++source) {
      for (std::size_t i = 0; i < count; ++i) all.push_back(piece(source, i));
    }
    return all;
  };
  switch (kind) {
    case Kind::all_reduce:
      c.input = input_of(rank, count);
      for (std::size_t i = 0; i < count; ++i) c.expected.push_back(sum_at(ranks, i));
      break;
    case Kind::reduce:
      c.input = input_of(rank, count);
      for (std::size_t i = 0; i < count; ++i) c.expected.push_back(rank == root ? sum_at(ranks, i) : value(rank, i));
      break;
    case Kind::broadcast:
      c.input = input_of(rank, count);
      c.expected = input_of(root, count);
      break;
    case Kind::all_gather:
      c.input = input_of(rank, count);
      c.output.resize(n * count);
      c.expected = concatenate(value);
      break;
    case Kind::gather:
      c.input = input_of(rank, count);
      c.output.resize(n * count);
      c.expected = rank == root ? concatenate(value) : Values(n * count, 0);
      break;
    case Kind::reduce_scatter:
      c.input = input_of(rank, n * count);
      c.output.resize(count);
      for (std::size_t i = 0; i < count; ++i) c.expected.push_back(sum_at(ranks, me * count + i));
      break;
    case Kind::all_to_all:
      c.input = input_of(rank, n * count);
      c.output.resize(n * count);
      c.expected = concatenate([&](int source, std::size_t i) { return value(source, me * count + i); });
      break;
    case Kind::scatter:
      c.input = input_of(rank, n * count);
      c.output.resize(count);
      for (std::size_t i = 0; i < count; ++i) c.expected.push_back(value(root, me * count + i));
      break;
    default: break;
  }
  return c;
}

const std::vector<Kind> kKinds = {Kind::all_reduce,     Kind::reduce,     Kind::broadcast, Kind::all_gather,
                                  Kind::reduce_scatter, Kind::all_to_all, Kind::gather,    Kind::scatter};

void check_case(ThreadRank& self, Kind kind, int root, std::size_t count) {
  Case c = make_case(kind, self.rank, self.size, root, count);
  Values& result = c.output.empty() ? c.input : c.output;
  self.run(kind, DType::int32, ReduceOp::sum, root, bytes(c.input.data()), bytes(result.data()), count);
  ASSERT_EQ(result, c.expected) << name(kind) << " of " << count << " from rank " << root << " on rank " << self.rank
                                << " of " << self.size;
}

// One header ring, chunk and channel are a few lines long, so that a few KB wrap around all of them.
Geometry tiny() {
  return {.ranks = 0,
          .headers = 4,
          .chunk_bytes = 512,
          .chunks = 2,
          .channel_bytes = 256,
          .whole_bytes = 200,
          .direct_bytes = 128};
}

// In elements of 4 bytes: around cache lines, the limit of small messages, chunks, and all buffers of a rank together.
const std::vector<std::size_t> kCounts = {0,  1,  2,  3,   15,  16,  17,  31,  32,  33,  34,  63,  64,   65,
                                          95, 96, 97, 127, 128, 129, 130, 255, 256, 257, 300, 511, 1000, 1025};

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, MatchTheirDefinitionAtEverySize) {
  run_threads(GetParam(), {.geometry = tiny()}, [](ThreadRank& self) {
    for (const Kind kind : kKinds) {
      for (const std::size_t count : kCounts) check_case(self, kind, static_cast<int>(count) % self.size, count);
    }
  });
}

TEST_P(Collectives, MatchTheirDefinitionWithTheRealGeometry) {
  run_threads(GetParam(), {}, [](ThreadRank& self) {
    for (const Kind kind : kKinds) {
      for (const std::size_t count : {1UL, 8191UL, 8192UL, 8193UL, 65535UL, 65536UL, 65537UL, 270001UL}) {
        check_case(self, kind, self.size - 1, count);
      }
    }
  });
}

TEST_P(Collectives, BarrierWaitsForEveryRank) {
  std::vector<std::atomic<int>> entered(100);
  run_threads(GetParam(), {.geometry = tiny()}, [&](ThreadRank& self) {
    for (auto& count : entered) {
      count.fetch_add(1);
      self.run(Kind::barrier, DType::other, ReduceOp::sum, -1, nullptr, nullptr, 0);
      ASSERT_EQ(count.load(), self.size);
    }
  });
}

TEST_P(Collectives, WorkInSharedMemory) {
  constexpr std::size_t kCount = 1000;
  const ThreadOptions options{.geometry = tiny(), .shared_bytes = 64 << 10};
  run_threads(GetParam(), options, [&](ThreadRank& self) {
    const auto n = static_cast<std::size_t>(self.size);
    for (const Kind kind : kKinds) {
      for (const std::size_t count : {1UL, 100UL, kCount}) {
        Case c = make_case(kind, self.rank, self.size, 0, count);
        auto* const input = reinterpret_cast<std::int32_t*>(self.shared_part);
        std::int32_t* const output = c.output.empty() ? input : input + n * kCount;
        std::copy(c.input.begin(), c.input.end(), input);
        std::copy(c.output.begin(), c.output.end(), output);
        self.run(kind, DType::int32, ReduceOp::sum, 0, bytes(input), bytes(output), count);
        const Values result(output, output + c.expected.size());
        ASSERT_EQ(result, c.expected) << name(kind) << " of " << count;
      }
    }
  });
}

TEST_P(Collectives, WorkWhenOnlySomeRanksUseSharedMemory) {
  const ThreadOptions options{.geometry = tiny(), .shared_bytes = 64 << 10};
  run_threads(GetParam(), options, [&](ThreadRank& self) {
    for (std::size_t round = 0; round < 20; ++round) {
      for (const Kind kind : kKinds) {
        const std::size_t count = 40 + round * 31;
        Case c = make_case(kind, self.rank, self.size, 0, count);
        const bool shared = (round + static_cast<std::size_t>(self.rank)) % 2 == 0;
        auto* const input = shared ? reinterpret_cast<std::int32_t*>(self.shared_part) : c.input.data();
        if (shared) std::copy(c.input.begin(), c.input.end(), input);
        std::int32_t* const output = c.output.empty() ? input : c.output.data();
        self.run(kind, DType::int32, ReduceOp::sum, 0, bytes(input), bytes(output), count);
        const Values result(output, output + c.expected.size());
        ASSERT_EQ(result, c.expected) << name(kind) << " of " << count;
      }
    }
  });
}

TEST_P(Collectives, GatherSlicesOfOneSharedTensorInPlace) {
  constexpr std::size_t kCount = 500;
  const ThreadOptions options{.geometry = tiny(), .shared_bytes = 64 << 10};
  run_threads(GetParam(), options, [&](ThreadRank& self) {
    auto* const all = reinterpret_cast<std::int32_t*>(self.shared_part);
    std::int32_t* const mine = all + static_cast<std::size_t>(self.rank) * kCount;
    for (std::size_t i = 0; i < kCount; ++i) mine[i] = value(self.rank, i);
    self.run(Kind::all_gather, DType::int32, ReduceOp::sum, -1, bytes(mine), bytes(all), kCount);
    for (int rank = 0; rank < self.size; ++rank) {
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(all[static_cast<std::size_t>(rank) * kCount + i], value(rank, i));
      }
    }
  });
}

// Random collectives, several under way at once, waited for out of order: what data parallel does, and more.
TEST_P(Collectives, RandomMixtureWithManyUnderWay) {
  const ThreadOptions options{.geometry = tiny(), .shared_bytes = 64 << 10};
  run_threads(GetParam(), options, [&](ThreadRank& self) {
    struct Running {
      Case c;
      std::int32_t* result;
      std::shared_ptr<Collective> collective;
    };
    std::mt19937 common(4711);                           // the same on all ranks
    std::mt19937 own(static_cast<unsigned>(self.rank));  // differs
    constexpr std::size_t kSlots = 6;                    // shared memory for as many at once
    constexpr std::size_t kSlotBytes = (64 << 10) / kSlots / 64 * 64;
    for (int round = 0; round < 60; ++round) {
      std::vector<Running> running(1 + common() % kSlots);
      for (std::size_t slot = 0; slot < running.size(); ++slot) {
        const Kind kind = kKinds[common() % kKinds.size()];
        const std::size_t count = kCounts[common() % kCounts.size()];
        const int root = static_cast<int>(common() % static_cast<unsigned>(self.size));
        const bool shared = common() % 3 != 0;
        Running& r = running[slot];
        r.c = make_case(kind, self.rank, self.size, root, count);
        std::int32_t* input = r.c.input.data();
        if (shared && r.c.input.size() * 4 <= kSlotBytes) {
          input = reinterpret_cast<std::int32_t*>(self.shared_part + slot * kSlotBytes);
          std::copy(r.c.input.begin(), r.c.input.end(), input);
        }
        r.result = r.c.output.empty() ? input : r.c.output.data();
        r.collective = self.start(kind, DType::int32, ReduceOp::sum, root, bytes(input), bytes(r.result), count);
        if (own() % 4 == 0) self.engine.test(*running[own() % (slot + 1)].collective);
      }
      std::shuffle(running.begin(), running.end(), own);
      for (Running& r : running) {
        self.engine.wait(*r.collective, std::chrono::seconds(60));
        const Values result(r.result, r.result + r.c.expected.size());
        ASSERT_EQ(result, r.c.expected) << r.collective->name();
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 7));

TEST(CollectiveOrder, ManyCanBeUnderWayAndAreWaitedForInAnyOrder) {
  run_threads(3, {.geometry = tiny()}, [](ThreadRank& self) {
    constexpr std::size_t kCount = 40;  // collectives; the header ring holds 4
    std::vector<Values> data;
    std::vector<std::shared_ptr<Collective>> running;
    for (std::size_t i = 0; i < kCount; ++i) {
      data.push_back(input_of(self.rank, 1 + i * 5));
      running.push_back(self.start(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes(data[i].data()),
                                   bytes(data[i].data()), data[i].size()));
    }
    for (std::size_t i = kCount; i-- > 0;) {
      self.engine.wait(*running[i], std::chrono::seconds(60));
      for (std::size_t k = 0; k < data[i].size(); ++k) ASSERT_EQ(data[i][k], sum_at(3, k));
    }
  });
}

TEST(CollectiveOrder, TestNeverWaitsAndCompletesAtLast) {
  run_threads(2, {.geometry = tiny()}, [](ThreadRank& self) {
    Values data = input_of(self.rank, 2000);
    const auto running = self.start(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes(data.data()),
                                    bytes(data.data()), data.size());
    while (!self.engine.test(*running)) std::this_thread::yield();
    running->rethrow();
    for (std::size_t k = 0; k < data.size(); ++k) ASSERT_EQ(data[k], sum_at(2, k));
  });
}

}  // namespace
}  // namespace lockstep::shm::test
