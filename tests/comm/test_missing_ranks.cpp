// Rendezvous: ranks that never come or die meanwhile, and who is told so.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>

#include "comm/connecting.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

TEST(MissingRanks, RanksThatNeverComeAreNamed) {
  const TemporaryFolder folder;
  const auto outcomes = fork_outcomes(2, {}, [&](int i) {
    const int rank = i == 0 ? 0 : 2;  // of four
    const auto error = error_of([&] { connect(world_at(folder.path() / "store", rank, 4), impatient()); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_words(error, {"2 of 4 ranks did not register", "rank 1, 3", "2.0 s", "LOCKSTEP_START_TIMEOUT_S"});
  });
  expect_all_ok(outcomes);
}

TEST(MissingRanks, MissingRankIsNamedThroughAStoreThatRankZeroHolds) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  options.group = impatient();
  run_ranks(3, options, [](Rank& rank) {
    if (rank.rank() == 1) return;
    expect_words(error_of([&] { rank.group(); }), {"1 of 3 ranks did not register", "rank 1."});
  });
}

TEST(MissingRanks, MissingRankZeroIsNamedThroughAStoreThatIsThere) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  run_ranks(2, options, [](Rank& rank) {
    barrier(rank.group());
    World of_three = rank.world();  // as ranks 1 and 2, where the launcher holds the store
    of_three.store_is_external = true;
    of_three.store_prefix = "/attempt_1";
    of_three.size = 3;
    of_three.rank = rank.rank() + 1;
    const auto error = error_of([&] { connect(of_three, impatient()); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_words(error, {"1 of 3 ranks did not register", "rank 0."});
    barrier(rank.group());
  });
}

/// Ends the process when it has said where it can be reached, and looks for the others.
class FatalStore : public c10d::PrefixStore {
 public:
  using PrefixStore::PrefixStore;
  bool check(const std::vector<std::string>&) override {
    ::raise(SIGKILL);
    return false;
  }
};

TEST(MissingRanks, ADeathAmongRanksThatConnectOverTcpIsNoticed) {
  constexpr int kDead = 2;
  RankOptions options;
  options.deadline = 30s;
  options.group = RankOptions::test_group_options("tcp");
  options.group.start_timeout = 60s;  // that of whoever does not notice
  options.rendezvous = Rendezvous::tcp;
  for (const auto& outcome : rank_outcomes(5, options, [](Rank& rank) {
         if (rank.rank() != kDead) {
           const auto error = error_of([&] { rank.group(); });
           EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
           expect_words(error, {"group \"world\"", "rank 2", "ended"});  // before it connects, or while it does
           return;
         }
         auto store = detail::open_store(rank.world(), 30s);
         detail::meet(*store.store, detail::this_rank(rank.world(), ""), rank.size(), 30s, [] {});
         detail::BackendContext context;
         context.store = c10::make_intrusive<FatalStore>("group/world", store.store);
         context.rank = rank.rank();
         context.size = rank.size();
         context.start_timeout = 30s;
         detail::backend_called("tcp").make(context);
       })) {
    EXPECT_TRUE(outcome.rank == kDead ? outcome.status.signal == SIGKILL : outcome.ok()) << describe(outcome);
  }
}

/// Shows no address for a while.
class SlowStore : public c10d::PrefixStore {
 public:
  SlowStore(c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds delay)
      : PrefixStore("group/world", std::move(store)), delay_(delay) {}
  bool check(const std::vector<std::string>& keys) override {
    if (std::chrono::steady_clock::now() - start_ < delay_) return false;
    return PrefixStore::check(keys);
  }

 private:
  const std::chrono::milliseconds delay_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Rank 2 never comes. Rank 0 hears that at once, rank 1 only when it is connecting to rank 0, which must be there
/// then.
TEST(MissingRanks, ARankThatHearsOfALossIsThereForThoseThatHearOfItLater) {
  RankOptions options;
  options.deadline = 30s;
  options.rendezvous = Rendezvous::tcp;
  for (const auto& outcome : rank_outcomes(3, options, [](Rank& rank) {
         auto store = detail::open_store(rank.world(), 30s);
         detail::meet(*store.store, detail::this_rank(rank.world(), ""), rank.size(), 30s, [] {});
         if (rank.rank() == 2) return;
         const auto start = std::chrono::steady_clock::now();
         detail::BackendContext context;
         context.store = c10::make_intrusive<SlowStore>(store.store, rank.rank() == 0 ? 0ms : 300ms);
         context.rank = rank.rank();
         context.size = rank.size();
         context.start_timeout = 20s;
         const auto silence = rank.rank() == 0 ? 0ms : 400ms;
         context.while_connecting = [start, silence](const std::vector<int>&) {
           if (std::chrono::steady_clock::now() - start < silence) return;
           throw Error(ErrorKind::peer_lost, "test", "rank 2 is lost");
         };
         const auto error = error_of([&] { detail::backend_called("tcp").make(context); });
         expect_words(error, {"rank 2 is lost"});
         EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
         std::this_thread::sleep_for(2s);  // rank 0 has the store, and is there to be connected to
       })) {
    EXPECT_TRUE(outcome.ok()) << describe(outcome);
  }
}

/// What each rank that comes is told: how many there are, or an error. They are threads. `ended` came, and no more.
std::vector<std::string> meet_many(int size, const std::set<int>& missing, std::chrono::milliseconds timeout,
                                   std::optional<int> ended = std::nullopt) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  if (ended) store->set(fmt::format("presence/{}", *ended), detail::to_bytes("here"));
  std::vector<std::string> told(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    if (missing.contains(rank) || rank == ended) continue;
    threads.emplace_back([&, rank] {
      World world = world_at({}, rank, size);
      auto& words = told[static_cast<std::size_t>(rank)];
      try {
        const auto members = *detail::meet(*store, detail::this_rank(world, ""), size, timeout, [] {});
        const auto in_order = [&, next = 0](const auto& info) mutable { return info.rank == next++; };
        words = std::all_of(members.begin(), members.end(), in_order) ? std::to_string(members.size()) : "in no order";
      } catch (const Error& error) {
        words = error.message();
      }
    });
  }
  threads.clear();
  return told;
}

TEST(MissingRanks, ManyRanksAreCollectedInGroups) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    for (const int size : {64, 65, 200}) {
      for (const auto& told : meet_many(size, {}, 60s)) EXPECT_EQ(told, std::to_string(size));
    }
    // One in the middle of a group, and one that should collect the others of its group.
    const auto told = meet_many(200, {70, 128}, 3s);
    for (std::size_t rank = 0; rank < told.size(); ++rank) {
      if (rank == 70 || rank == 128) continue;
      EXPECT_NE(told[rank].find("2 of 200 ranks did not register, or ended meanwhile, within 3.0 s: rank 70, 128."),
                std::string::npos)
          << rank << ": " << told[rank];
    }
    // One that announced itself and ended before it collected its group.
    const auto left = meet_many(200, {}, 3s, 128);
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      if (rank == 128) continue;
      EXPECT_NE(left[rank].find("1 of 200 ranks did not register, or ended meanwhile, within 3.0 s: rank 128."),
                std::string::npos)
          << rank << ": " << left[rank];
    }
  });
  expect_all_ok(outcomes);
}

}  // namespace
}  // namespace lockstep::test
