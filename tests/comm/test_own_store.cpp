// Lockstep's own store: it does what c10d's does, and strangers at its port do no harm to a job.
#include <lockstep/base/error.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/stores.h>

#include "comm/suite.h"
#include "store/stranger.h"
#include "support/raw_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using detail::StorePtr;
using detail::to_bytes;
using detail::to_text;

detail::OwnStorePtr own_store(const std::string& secret = "") {
  return detail::host_own_store({"127.0.0.1", 0, {secret}}, {"127.0.0.1"}, 60s);
}

/// One operation on a store, chosen by chance, and what came of it.
using StoreOperation = std::function<std::string(c10d::Store&)>;

StoreOperation some_operation(std::mt19937& random) {
  const auto pick = [&](unsigned count) { return static_cast<int>(random() % count); };
  const auto key = fmt::format("key {}", pick(6));
  const auto counter = fmt::format("counter {}", pick(3));
  const auto value = fmt::format("value {}", pick(4));
  const auto other = pick(3) == 0 ? "" : fmt::format("value {}", pick(4));
  const auto number = pick(2000) - 1000;
  switch (pick(9)) {
    case 0: return [=](c10d::Store& s) { return s.set(key, to_bytes(value)), "set"; };
    case 1: return [=](c10d::Store& s) { return s.check({key}) ? to_text(s.get(key)) : "nothing to get"; };
    case 2: return [=](c10d::Store& s) { return to_text(s.compareSet(key, to_bytes(other), to_bytes(value))); };
    case 3: return [=](c10d::Store& s) { return std::to_string(s.add(counter, number)); };
    case 4: return [=](c10d::Store& s) { return s.check({counter}) ? to_text(s.get(counter)) : "no counter"; };
    case 5: return [=](c10d::Store& s) { return std::string(s.deleteKey(key) ? "deleted" : "not there"); };
    case 6: return [=](c10d::Store& s) { return std::string(s.deleteKey(counter) ? "deleted" : "not there"); };
    case 7: return [=](c10d::Store& s) { return std::string(s.check({key, counter}) ? "both" : "not both"); };
    default: {
      return [=](c10d::Store& s) {
        if (!s.check({key, counter})) return std::string("not waited");
        s.wait({key, counter}, 60s);
        s.wait({}, 60s);
        return std::string("waited");
      };
    }
  }
}

TEST(OwnStore, AnswersAsThatOfC10d) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    const StorePtr own = own_store();
    const StorePtr theirs = detail::make_tcp_store("127.0.0.1", 0, true, 60s);
    const auto own_keys = own->getNumKeys();
    const auto their_keys = theirs->getNumKeys();
    std::mt19937 random(5);
    for (int step = 0; step < 3000; ++step) {
      const auto operation = some_operation(random);
      EXPECT_EQ(operation(*own), operation(*theirs)) << "step " << step;
      EXPECT_EQ(own->getNumKeys() - own_keys, theirs->getNumKeys() - their_keys) << "step " << step;
    }
    for (const auto& value : {std::string(), std::string("a\0b\xff", 4), std::string(1 << 20, 'x')}) {
      for (const auto& store : {own, theirs}) {
        store->set("key", to_bytes(value));
        EXPECT_EQ(to_text(store->get("key")), value);
      }
    }
    for (const auto& store : {own, theirs}) {
      EXPECT_THROW(store->wait({"key", "never"}, 1000ms), std::exception);
    }
  });
  expect_all_ok(outcomes);
}

TEST(OwnStore, AWaitThatTimedOutLeavesNothingBehind) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    const auto store = own_store();
    store->setTimeout(30ms);
    EXPECT_THROW(store->get("late"), std::exception);
    EXPECT_THROW(store->wait({"late"}), std::exception);
    store->setTimeout(60s);
    EXPECT_EQ(store->add("counter", 3), 3);
    store->set("late", to_bytes("here"));
    EXPECT_EQ(to_text(store->get("late")), "here");
    EXPECT_EQ(store->add("counter", 4), 7);
    store->set("word", to_bytes("seven"));
    EXPECT_THROW(store->add("word", 1), std::exception);
    EXPECT_EQ(store->add("counter", 1), 8);
    const auto clone = store->clone();
    EXPECT_EQ(clone->add("counter", 1), 9);
    EXPECT_EQ(clone->getTimeout(), 60s);
  });
  expect_all_ok(outcomes);
}

/// What 64 clients, each with a connection of its own, are told who wait for each other.
std::vector<std::string> told_to_many(const std::function<StorePtr()>& connect_client) {
  constexpr int kClients = 64;
  std::vector<std::string> told(kClients);
  std::vector<std::jthread> threads;
  for (int own = 0; own < kClients; ++own) {
    threads.emplace_back([&, own] {
      c10d::PrefixStore store("many", connect_client());
      for (int round = 0; round < 5; ++round) {
        const auto key = [&](int who) { return fmt::format("{}/{}", round, who); };
        store.set(key(own), to_bytes(fmt::format("{} of {}", round, own)));
        store.wait({key((own + 1) % kClients), key((own + 13) % kClients)}, 60s);
        told[static_cast<std::size_t>(own)] += to_text(store.get(key((own + 1) % kClients))) + ";";
      }
      store.add("sum", own);
      store.add("ready", 1);
      while (store.add("ready", 0) < kClients) std::this_thread::sleep_for(1ms);
      told[static_cast<std::size_t>(own)] += std::to_string(store.add("sum", 0));
    });
  }
  threads.clear();
  return told;
}

TEST(OwnStore, SixtyFourClientsAreToldWhatC10dTellsThem) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    const auto own = own_store();
    const auto theirs = detail::make_tcp_store("127.0.0.1", 0, true, 60s);
    const auto port = dynamic_cast<c10d::TCPStore&>(*theirs).getPort();
    const auto told = told_to_many([&] { return detail::join_own_store({"127.0.0.1", own->port()}, 60s); });
    EXPECT_EQ(told, told_to_many([&] { return detail::make_tcp_store("127.0.0.1", port, false, 60s); }));
    EXPECT_TRUE(told[0].ends_with("4 of 1;2016")) << told[0];
  });
  expect_all_ok(outcomes);
}

// ---- strangers

/// Connects again and again to a port that somebody may open soon, says what strangers say, and stays.
class Strangers {
 public:
  explicit Strangers(std::uint16_t port) : thread_([this, port] { be_there(port); }) {}
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;
  ~Strangers() {
    ended_ = true;
    thread_.join();
  }
  int count() const { return count_; }

 private:
  void be_there(std::uint16_t port) {
    std::vector<UniqueFd> connections;
    for (std::size_t i = 0; !ended_; ++i) {
      static const auto words = first_words_of_strangers();
      auto connection = connect_to(port);
      std::this_thread::sleep_for(1ms);
      if (!connection) continue;
      if (i % 10 < words.size()) write_all(connection.get(), words[i % 10]);
      ++count_;
      connections.push_back(std::move(connection));
      if (connections.size() > 500) connections.erase(connections.begin());
    }
  }

  std::atomic<bool> ended_ = false;
  std::atomic<int> count_ = 0;
  std::thread thread_;
};

void expect_that_ranks_work_among_strangers(const RankOptions& options) {
  run_ranks(4, options, [](Rank& rank) {
    std::optional<Strangers> strangers;
    if (rank.rank() == 3) strangers.emplace(rank.world().master_port);
    for (int step = 0; step < 200; ++step) {
      auto tensor = at::full({1000}, rank.rank() + step);
      all_reduce(tensor, rank.group());
      EXPECT_TRUE(same(tensor, at::full({1000}, 6 + 4 * step)));
      if (strangers && step == 100) {
        while (strangers->count() < 50) std::this_thread::sleep_for(1ms);
      }
    }
    barrier(rank.group());
  });
}

TEST(OwnStore, RanksMeetAndWorkAmongStrangers) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  expect_that_ranks_work_among_strangers(options);
  options.environment = {{"LOCKSTEP_STORE_SECRET", "open sesame"}};
  options.group.backend = "auto";
  expect_that_ranks_work_among_strangers(options);
}

TEST(OwnStore, ARankWithAnotherSecretIsToldSo) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  options.environment = {{"LOCKSTEP_STORE_SECRET", "open sesame"}};
  options.group.start_timeout = 3s;
  run_ranks(2, options, [](Rank& rank) {
    if (rank.rank() == 1) ::setenv("LOCKSTEP_STORE_SECRET", "open barley", 1);
    const auto error = error_of([&] { rank.group(); });
    expect_words(error, rank.rank() == 1 ? std::vector<std::string>{"which has another secret", "LOCKSTEP_STORE_SECRET"}
                                         : std::vector<std::string>{"1 of 2 ranks did not register", "rank 1."});
  });
}

TEST(OwnStore, ARankTriesAgainWhereABusyStoreOfItsLauncherClosedTheConnection) {
  std::atomic<int> closed{0};
  auto busy = std::make_unique<RawServer>([&](int /*connection*/) { ++closed; });
  World world;
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = "127.0.0.1";
  world.master_port = busy->port();
  world.store_is_external = world.store_is_own = true;
  auto joined = std::async(std::launch::async,
                           [&] { return detail::reach_tcp_store(world, world.master_addr, world.master_port, 60s); });
  while (closed < 5) std::this_thread::sleep_for(1ms);  // one of them only looks whether there is a listener
  busy.reset();
  const auto store = detail::host_own_store({"127.0.0.1", world.master_port, {}}, {"127.0.0.1"}, 60s);
  EXPECT_TRUE(joined.get());
}

TEST(OwnStore, AStoreOfC10dAtThePortIsNamed) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    const auto theirs = detail::make_tcp_store("127.0.0.1", 0, true, 60s);
    World world;
    world.rank = 1;
    world.size = 2;
    world.rendezvous = Rendezvous::tcp;
    world.master_addr = "127.0.0.1";
    world.master_port = dynamic_cast<c10d::TCPStore&>(*theirs).getPort();
    auto options = RankOptions::test_group_options("tcp");
    options.start_timeout = 1s;
    expect_words(error_of([&] { connect(world, options); }), {"cannot reach the store", "not a store of Lockstep"});
    theirs->set("key", to_bytes("x"));  // and it goes on
  });
  expect_all_ok(outcomes);
}

// ---- where it listens

std::string listens_on(const std::string& name, const std::vector<std::string>& addresses, bool all_here) {
  const std::vector<std::string> own = {"127.0.0.1", "10.0.0.5", "::1", "fd00::5"};
  const detail::RendezvousHost host{name, addresses, all_here};
  return fmt::format("{} at {}", fmt::join(detail::addresses_to_listen_on(host, own), ","),
                     detail::host_to_connect_to(host, own));
}

TEST(OwnStore, ListensWhereTheOthersConnect) {
  EXPECT_EQ(listens_on("127.0.0.1", {"127.0.0.1"}, true), "127.0.0.1 at 127.0.0.1");
  EXPECT_EQ(listens_on("localhost", {"127.0.0.1", "::1"}, true), "127.0.0.1,::1 at localhost");
  EXPECT_EQ(listens_on("10.0.0.5", {"10.0.0.5"}, false), "10.0.0.5 at 10.0.0.5");
  EXPECT_EQ(listens_on("node5", {"10.0.0.5", "fd00::5"}, false), "10.0.0.5,fd00::5 at node5");
  // All ranks are here.
  EXPECT_EQ(listens_on("node5", {"10.0.0.5"}, true), "127.0.0.1 at 127.0.0.1");
  EXPECT_EQ(listens_on("node5", {"127.0.1.1"}, true), "127.0.0.1 at 127.0.0.1");
  // Other hosts know this one by another address: on all.
  EXPECT_EQ(listens_on("node5", {"127.0.1.1"}, false), " at node5");
  EXPECT_EQ(listens_on("127.0.0.1", {"127.0.0.1"}, false), " at 127.0.0.1");
  EXPECT_EQ(listens_on("203.0.113.9", {"203.0.113.9"}, false), " at 203.0.113.9");
  EXPECT_EQ(listens_on("203.0.113.9", {"203.0.113.9"}, true), " at 203.0.113.9");
  // Of several only its own.
  EXPECT_EQ(listens_on("service", {"203.0.113.9", "10.0.0.5"}, false), "10.0.0.5 at service");
}

}  // namespace
}  // namespace lockstep::test
