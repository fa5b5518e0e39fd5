// Ranks that die, stop, leave or give up: who waits for them learns it, by name, and nobody else is troubled.
#include <lockstep/base/error.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <optional>
#include <random>
#include <thread>

#include "comm/shm/process_ranks.h"

namespace lockstep::shm::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void barrier(ThreadRank& rank) { rank.run(Kind::barrier, DType::other, ReduceOp::sum, -1, nullptr, nullptr, 0); }

// The error that ends a rank's endless round of barriers.
Error run_until_error(ThreadRank& rank) {
  try {
    for (;;) barrier(rank);
  } catch (const Error& error) {
    return error;
  }
}

// Random collectives until something goes wrong; every result until then must be right.
Error stress_until_error(ThreadRank& self, unsigned seed) {
  std::mt19937 random(seed);
  const std::vector<Kind> kinds = {Kind::all_reduce, Kind::broadcast, Kind::all_gather, Kind::reduce_scatter,
                                   Kind::all_to_all};
  try {
    for (;;) {
      const Kind kind = kinds[random() % kinds.size()];
      const std::size_t count = 1 + random() % 60000;
      const auto n = static_cast<std::size_t>(self.size);
      std::vector<std::int32_t> input(n * count, 1);
      std::vector<std::int32_t> output(n * count, 0);
      auto* const from = reinterpret_cast<std::byte*>(input.data());
      const bool in_place = kind == Kind::all_reduce || kind == Kind::broadcast;
      self.run(kind, DType::int32, ReduceOp::sum, 0, from,
               in_place ? from : reinterpret_cast<std::byte*>(output.data()), count);
      const std::int32_t result = in_place ? input[count / 2] : output[count / 2];
      const bool sums = kind == Kind::all_reduce || kind == Kind::reduce_scatter;
      EXPECT_EQ(result, sums ? self.size : 1) << name(kind);
    }
  } catch (const Error& error) {
    return error;
  }
}

Geometry few_slots() {
  return {.headers = 4, .chunk_bytes = 512, .chunks = 2, .channel_bytes = 256, .whole_bytes = 200, .direct_bytes = 128};
}

TEST(Failures, EveryRankNamesTheOneThatWasKilled) {
  for (const int victim : {0, 1, 2}) {
    const auto outcomes = process_outcomes(3, {}, [&](ProcessRank& self) {
      ThreadRank rank = self.as_thread_rank();
      for (int i = 0; i < 100; ++i) barrier(rank);
      if (self.rank() == victim) ::kill(::getpid(), SIGKILL);
      const Error error = run_until_error(rank);
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
      EXPECT_TRUE(mentions(error, fmt::format("rank {} (world rank {}) died", victim, 100 + victim))) << error.what();
      // A group that failed stays failed.
      EXPECT_EQ(run_until_error(rank).kind(), ErrorKind::peer_lost);
    });
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome.ok(), outcome.rank != victim) << describe(outcome);
    }
  }
}

// The kill may strike in the middle of any copy or hand-shake.
TEST(Failures, AKillAtAnyMomentIsNoticed) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const int n = 2 + static_cast<int>(seed % 3);
    const int victim = static_cast<int>(seed) % n;
    const Geometry geometry = seed % 2 == 0 ? few_slots() : Geometry{};
    const auto outcomes = process_outcomes(n, geometry, [&](ProcessRank& self) {
      ThreadRank rank = self.as_thread_rank();
      std::optional<std::jthread> killer;
      if (self.rank() == victim) {
        killer.emplace([seed] {
          std::this_thread::sleep_for(std::chrono::microseconds(1000 + 1700 * seed));
          ::kill(::getpid(), SIGKILL);
        });
      }
      const Error error = stress_until_error(rank, seed);
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
      EXPECT_TRUE(mentions(error, fmt::format("rank {} (world rank {}) died", victim, 100 + victim))) << error.what();
    });
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome.ok(), outcome.rank != victim) << "seed " << seed << " " << describe(outcome);
    }
  }
}

TEST(Failures, AStoppedRankIsNamedWhenTimeIsUpAndMayStillCome) {
  const Tokens waited;
  run_processes(3, {}, [&](ProcessRank& self) {
    ThreadRank rank = self.as_thread_rank();
    std::int32_t pid = ::getpid();
    std::vector<std::int32_t> pids(3);
    rank.run(Kind::all_gather, DType::int32, ReduceOp::sum, -1, bytes(&pid), bytes(pids.data()), 1);
    if (self.rank() == 1) ::raise(SIGSTOP);
    std::int32_t sum = 1;
    const auto operation = rank.start(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes(&sum), bytes(&sum), 1);
    if (self.rank() != 1) {
      try {
        self.engine().wait(*operation, seconds(2));
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::timeout);
        EXPECT_TRUE(mentions(error, "[all_reduce] waited for rank 1 (world rank 101), which has not entered it"))
            << error.what();
      }
    }
    if (self.rank() == 2) waited.give();
    if (self.rank() == 0) {
      waited.take();
      ::kill(pids[1], SIGCONT);
    }
    self.engine().wait(*operation, seconds(60));
    EXPECT_EQ(sum, 3);
  });
}

TEST(Failures, ARankThatStopsForeverInTheMiddleIsNamed) {
  // Rank 1 enters a large collective and moves no further. Nobody leaves before all have waited in vain.
  const Tokens waited;
  const Tokens free_to_go;
  run_processes(3, few_slots(), [&](ProcessRank& self) {
    ThreadRank rank = self.as_thread_rank();
    std::vector<std::int32_t> data(10000, 1);
    const auto operation = rank.start(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes(data.data()),
                                      bytes(data.data()), data.size());
    if (self.rank() == 1) {
      waited.take(2);
      free_to_go.give(2);
      return;
    }
    try {
      self.engine().wait(*operation, seconds(2));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
      EXPECT_TRUE(mentions(error, "for rank 1 (world rank 101), which has not")) << error.what();
    }
    waited.give();
    free_to_go.take();
  });
}

TEST(Failures, ARankThatLeavesIsMissedOnlyByThoseWhoNeedIt) {
  const Tokens left;
  run_processes(3, {}, [&](ProcessRank& self) {
    ThreadRank rank = self.as_thread_rank();
    std::int32_t value = self.rank() == 2 ? 42 : 0;
    // The last thing rank 2 does: it need not wait until the others have read it.
    const auto last = rank.start(Kind::broadcast, DType::int32, ReduceOp::sum, 2, bytes(&value), bytes(&value), 1);
    if (self.rank() == 2) {
      self.engine().wait(*last, seconds(60));
      self.take_engine();
      left.give(2);
      return;
    }
    left.take();
    self.engine().wait(*last, seconds(60));
    EXPECT_EQ(value, 42);
    const Error error = run_until_error(rank);
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    EXPECT_TRUE(mentions(error, "rank 2 (world rank 102) left the group")) << error.what();
  });
}

TEST(Failures, ARankThatEndsAfterItsPartTroublesNobody) {
  run_processes(3, {}, [](ProcessRank& self) {
    ThreadRank rank = self.as_thread_rank();
    std::int32_t sum = 1;
    const auto last = rank.start(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes(&sum), bytes(&sum), 1);
    // Rank 2 ends without a good-bye; what the others need of it lies in shared memory.
    if (self.rank() == 2) ::_exit(0);
    std::this_thread::sleep_for(milliseconds(100 * (1 + self.rank())));
    self.engine().wait(*last, seconds(60));
    EXPECT_EQ(sum, 3);
  });
}

TEST(Failures, GivingUpReachesTheOthers) {
  run_processes(3, {}, [](ProcessRank& self) {
    ThreadRank rank = self.as_thread_rank();
    barrier(rank);
    if (self.rank() == 1) self.engine().abort();
    const Error error = run_until_error(rank);
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    EXPECT_TRUE(
        mentions(error, self.rank() == 1 ? "this rank aborted the group" : "rank 1 (world rank 101) aborted the group"))
        << error.what();
  });
}

TEST(Failures, ADifferentCallIsAnErrorOnEveryRankAndTheGroupGoesOn) {
  for (const Geometry& geometry : {Geometry{}, few_slots()}) {
    run_processes(3, geometry, [](ProcessRank& self) {
      ThreadRank rank = self.as_thread_rank();
      std::vector<std::int32_t> data(1000, 1);
      for (const std::size_t count : {1UL, 1000UL}) {
        // Others are under way before and after.
        std::vector<std::int32_t> before(count, 1);
        std::vector<std::int32_t> after(count, 2);
        const auto first = rank.start(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes(before.data()),
                                      bytes(before.data()), count);
        const auto wrong = self.rank() == 1 ? rank.start(Kind::broadcast, DType::int32, ReduceOp::sum, 2,
                                                         bytes(data.data()), bytes(data.data()), count)
                                            : rank.start(Kind::all_reduce, DType::float32, ReduceOp::max, -1,
                                                         bytes(data.data()), bytes(data.data()), count);
        const auto last = rank.start(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes(after.data()),
                                     bytes(after.data()), count);
        self.engine().wait(*last, seconds(60));
        EXPECT_EQ(after, std::vector<std::int32_t>(count, 6));
        self.engine().wait(*first, seconds(60));
        EXPECT_EQ(before, std::vector<std::int32_t>(count, 3));
        try {
          self.engine().wait(*wrong, seconds(60));
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::mismatch);
          EXPECT_TRUE(mentions(
              error,
              fmt::format("ranks 0, 2: all_reduce max of float32[{0}]; rank 1: broadcast of int32[{0}] from 2", count)))
              << error.what();
        }
        EXPECT_EQ(data, std::vector<std::int32_t>(1000, 1));
      }
    });
  }
}

}  // namespace
}  // namespace lockstep::shm::test
