// Repeated rendezvous: in a file that other jobs have used, and one rendezvous after the other in one store.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>

#include "comm/connecting.h"

#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

// ---- a file that other jobs have used

void meet_in(const std::filesystem::path& file, int size, const std::function<void(const Group&)>& more = nullptr) {
  fork_ranks(size, {}, [&](int rank) {
    const auto group = connect(world_at(file, rank, size), RankOptions::test_group_options("tcp"));
    const auto order = all_gather(at::full({1}, rank, at::kLong), group);
    EXPECT_TRUE(same(order, at::arange(size, at::kLong)));
    if (more) more(group);
  });
}

TEST(RendezvousAgain, AFileIsRemovedByTheLastToLeave) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "meet";
  meet_in(file, 3);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(RendezvousAgain, AFileThatAKilledJobLeftIsMetInAgain) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "meet";
  // Some were killed after they had met, and one had left in good order.
  const auto killed = fork_outcomes(3, {}, [&](int rank) {
    const auto group = connect(world_at(file, rank, 3), RankOptions::test_group_options("tcp"));
    barrier(group);
    if (rank != 1) ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(killed[0].status.signal, SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(file));
  // One that was killed while it waited for the others; rank 0 is never there.
  const auto alone = fork_outcomes(1, {}, [&](int) {
    const auto error = error_of([&] { connect(world_at(file, 2, 3), impatient()); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_words(error, {"rank 0 of 3 did not register", "left by another job"});
  });
  expect_all_ok(alone);
  meet_in(file, 3);
  EXPECT_FALSE(std::filesystem::exists(file));
  meet_in(file, 2);
}

TEST(RendezvousAgain, TheSameProcessesMeetTwiceInAFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "meet";
  meet_in(file, 2, [&](const Group& first) {
    const auto again = connect(world_at(file, 1 - first.rank(), 2), RankOptions::test_group_options("tcp"));
    const auto order = all_gather(at::full({1}, first.rank(), at::kLong), again);
    EXPECT_TRUE(same(order, at::arange(1, -1, -1, at::kLong)));
    barrier(first);
  });
}

// ---- one rendezvous after the other in one store

/// As the ranks of a job whose launcher holds the store.
World of_launcher(const Rank& rank) {
  World world = rank.world();
  world.store_is_external = true;
  world.store_prefix = "/again";
  return world;
}

TEST(RendezvousAgain, ARankThatComesTooLateWaitsForTheNextRendezvous) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  run_ranks(3, options, [](Rank& rank) {
    barrier(rank.group());
    const World world = of_launcher(rank);
    if (rank.rank() != 2) {
      const auto error = error_of([&] { connect(world, impatient()); });
      expect_words(error, {"1 of 3 ranks did not register", "rank 2."});
    }
    barrier(rank.group());
    const auto group = connect(world, rank.options());
    EXPECT_TRUE(same(all_gather(at::full({1}, rank.rank(), at::kLong), group), at::arange(3, at::kLong)));
    barrier(rank.group());
  });
}

// Rank 0 died where it waited, and is there again; the others have waited all the time.
TEST(RendezvousAgain, RanksThatWaitGoAlongWhenRankZeroBeginsAgain) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  run_ranks(3, options, [](Rank& rank) {
    barrier(rank.group());
    const World world = of_launcher(rank);
    if (rank.rank() == 0) detail::open_store(world, 30s);  // and no more
    barrier(rank.group());
    if (rank.rank() == 0) {
      auto opened = detail::open_store(world, 30s);
      while (detail::absent_ranks(*opened.store, 3) != std::vector<int>{0}) std::this_thread::sleep_for(5ms);
    }
    const auto group = connect(world, rank.options());
    EXPECT_TRUE(same(all_gather(at::full({1}, rank.rank(), at::kLong), group), at::arange(3, at::kLong)));
    barrier(rank.group());
  });
}

// A process of rank 1 said that it is there, ended, and was replaced before all had come.
TEST(RendezvousAgain, ARosterThatHoldsAnEarlierProcessIsNotBelieved) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const World world = world_at({}, 1, 2);
    const auto ranks = std::vector{detail::this_rank(world_at({}, 0, 2), ""), detail::this_rank(world, "")};
    store->set("outcome", detail::to_bytes(detail::encode(ranks)));
    EXPECT_TRUE(detail::meet(*store, ranks[1], 2, 1s, [] {}));
    EXPECT_FALSE(detail::meet(*store, detail::this_rank(world, ""), 2, 1s, [] {}));
  });
  expect_all_ok(outcomes);
}

TEST(RendezvousAgain, AStoreThatRankZeroDoesNotLeaveIsNamed) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  run_ranks(2, options, [](Rank& rank) {
    barrier(rank.group());
    if (rank.rank() == 1) {
      const auto error = error_of([&] { connect(rank.world(), impatient()); });
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
      expect_words(error, {"earlier rendezvous", "rank 0 has not left that within 2.0 s", "last handle"});
    } else {
      expect_words(error_of([&] { connect(rank.world(), impatient()); }), {"in use", "destroy it first"});
    }
    barrier(rank.group());
  });
}

TEST(RendezvousAgain, StorePrefixesKeepTwoAttemptsApart) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  run_ranks(2, options, [](Rank& rank) {
    barrier(rank.group());
    // The same store again, which is there already, with the ranks the other way round.
    World again = rank.world();
    again.store_is_external = true;
    again.store_prefix = "/attempt_1";
    again.rank = 1 - rank.rank();
    const auto group = connect(again, rank.options());
    const auto order = all_gather(at::full({1}, rank.rank(), at::kLong), group);
    EXPECT_TRUE(same(order, at::arange(1, -1, -1, at::kLong)));
    barrier(rank.group());
  });
}

}  // namespace
}  // namespace lockstep::test
