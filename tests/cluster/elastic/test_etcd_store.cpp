// The store on a real etcd: what it promises, many at once, and servers that come and go.
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/etcd_store.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>

#include "support/etcd_server.h"
#include "support/raw_server.h"

namespace lockstep::cluster::elastic {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

etcd::HttpServer on_this_host(std::uint16_t port) { return {"127.0.0.1", port}; }

EtcdStoreOptions options_for(const std::vector<etcd::HttpServer>& servers) {
  EtcdStoreOptions options;
  options.address.servers = servers;
  options.job = testing::UnitTest::GetInstance()->current_test_info()->name();
  return options;
}

std::vector<etcd::HttpServer> servers_of(const test::EtcdServer& etcd, int members = 1) {
  std::vector<etcd::HttpServer> servers;
  for (int member = 0; member < members; ++member) servers.push_back(on_this_host(etcd.port(member)));
  return servers;
}

class EtcdStoreTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::EtcdServer::obstacle()) etcd_ = std::make_unique<test::EtcdServer>();
  }
  static void TearDownTestSuite() { etcd_.reset(); }
  void SetUp() override {
    if (const auto why = test::EtcdServer::obstacle()) GTEST_SKIP() << *why;
  }
  static EtcdStoreOptions options() { return options_for(servers_of(*etcd_)); }

  static std::unique_ptr<test::EtcdServer> etcd_;
};

std::unique_ptr<test::EtcdServer> EtcdStoreTest::etcd_;

/// Runs body(0) to body(n - 1), each in a thread.
void in_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.kind()), error.message());
  }
  return "no error";
}

TEST_F(EtcdStoreTest, GetsWhatWasSet) {
  EtcdStore store(options());
  EtcdStore other(options());
  EXPECT_EQ(store.get("a"), std::nullopt);
  store.set("a", "1");
  EXPECT_EQ(other.get("a"), "1");
  other.set("a", "2");
  EXPECT_EQ(store.get("a"), "2");
  EXPECT_THAT(store.describe(), AllOf(HasSubstr("etcd at 127.0.0.1:"), HasSubstr("/lockstep/GetsWhatWasSet/")));

  EtcdStoreOptions another_job = options();
  another_job.job = "another";
  EXPECT_EQ(EtcdStore(another_job).get("a"), std::nullopt);
}

TEST_F(EtcdStoreTest, CarriesAnyBytes) {
  EtcdStore store(options());
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  std::string large;
  for (int i = 0; i < 1024; ++i) large += bytes;
  for (const std::string& value :
       {bytes, large, std::string("größer als Ω 東京"), std::string(1, '\0'), std::string()}) {
    store.set("ключ/" + std::to_string(value.size()), value);
    EXPECT_EQ(store.get("ключ/" + std::to_string(value.size())), value);
  }
  EXPECT_TRUE(store.replace("binary", std::nullopt, bytes));
  EXPECT_TRUE(store.replace("binary", bytes, "next"));
}

TEST_F(EtcdStoreTest, GetsManyAtOnce) {
  EtcdStore store(options());
  std::vector<std::string> keys;
  std::vector<std::optional<std::string>> values;
  for (int i = 0; i < 250; ++i) {
    keys.push_back("key" + std::to_string(i));
    values.push_back(i % 3 == 0 ? std::optional("value" + std::to_string(i)) : std::nullopt);
    if (values.back()) store.set(keys.back(), *values.back());
  }
  EXPECT_EQ(store.get_all(keys), values);
  EXPECT_EQ(store.get_all({}), std::vector<std::optional<std::string>>());
}

TEST_F(EtcdStoreTest, ReplacesOnlyWhatIsExpected) {
  EtcdStore store(options());
  EXPECT_FALSE(store.replace("a", "1", "2"));
  EXPECT_EQ(store.get("a"), std::nullopt);
  EXPECT_TRUE(store.replace("a", std::nullopt, "1"));
  EXPECT_TRUE(store.replace("a", std::nullopt, "1")) << "the key holds it already";
  EXPECT_FALSE(store.replace("a", std::nullopt, "2"));
  EXPECT_FALSE(store.replace("a", "3", "2"));
  EXPECT_EQ(store.get("a"), "1");
  EXPECT_TRUE(store.replace("a", "1", "2"));
  EXPECT_EQ(store.get("a"), "2");
}

TEST_F(EtcdStoreTest, NoTwoOfManyAddToTheSameSum) {
  constexpr int kThreads = 8;
  constexpr int kAdds = 25;
  EtcdStore shared(options());
  std::mutex mutex;
  std::multiset<std::int64_t> sums;
  in_threads(kThreads, [&](int thread) {
    EtcdStore own(options());
    EtcdStore& store = thread % 2 == 0 ? shared : own;
    for (int i = 0; i < kAdds; ++i) {
      const auto sum = store.add("count", 1);
      const std::lock_guard lock(mutex);
      sums.insert(sum);
    }
  });
  std::multiset<std::int64_t> expected;
  for (int i = 1; i <= kThreads * kAdds; ++i) expected.insert(i);
  EXPECT_EQ(sums, expected);
  EXPECT_EQ(shared.add("count", -kThreads * kAdds - 5), -5);
  EXPECT_EQ(shared.add("count", 0), -5);
}

TEST_F(EtcdStoreTest, NoReplacementOfManyIsLost) {
  constexpr int kThreads = 8;
  constexpr int kEach = 10;
  in_threads(kThreads, [&](int thread) {
    EtcdStore store(options());
    for (int i = 0; i < kEach; ++i) {
      std::optional<std::string> held;
      std::string next;
      do {
        held = store.get("list");
        next = held.value_or("") + static_cast<char>('a' + thread);
      } while (!store.replace("list", held, next));
    }
  });
  const std::string list = EtcdStore(options()).get("list").value_or("");
  EXPECT_EQ(list.size(), kThreads * kEach);
  for (int thread = 0; thread < kThreads; ++thread)
    EXPECT_EQ(std::count(list.begin(), list.end(), 'a' + thread), kEach);
}

TEST_F(EtcdStoreTest, KeysLiveAsLongAsAnyStoreOfTheJobIsUsed) {
  EtcdStoreOptions brief = options();
  brief.lease = 4s;
  {
    EtcdStore writer(brief);
    writer.set("a", "1");
  }
  {
    EtcdStore reader(brief);
    for (const auto end = std::chrono::steady_clock::now() + 6s; std::chrono::steady_clock::now() < end;) {
      ASSERT_EQ(reader.get("a"), "1");
      std::this_thread::sleep_for(50ms);
    }
  }
  // Reading through a store of the job would keep them alive.
  etcd::Client client(brief.address);
  const auto count = [&] {
    const auto everything = nlohmann::json::object({{"key", "L2xvY2tzdGVwLw=="}, {"range_end", "L2xvY2tzdGVwMA=="}});
    const auto answer = client.call("/v3/kv/range", everything, std::chrono::steady_clock::now() + 60s);
    std::int64_t found = 0;
    for (const auto& entry : answer.body.value("kvs", nlohmann::json::array())) {
      found += entry["key"] == "L2xvY2tzdGVwL0tleXNMaXZlQXNMb25nQXNBbnlTdG9yZU9mVGhlSm9iSXNVc2VkL2E=" ? 1 : 0;
    }
    return found;
  };
  EXPECT_EQ(count(), 1);
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (count() != 0 && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(count(), 0);
  EtcdStore again(brief);
  EXPECT_EQ(again.get("a"), std::nullopt);
  again.set("a", "2");
  EXPECT_EQ(again.get("a"), "2");
}

TEST_F(EtcdStoreTest, GoesOnWhenEtcdTookTheLeaseAway) {
  EtcdStore store(options());
  store.set("a", "1");
  etcd::Client client(options().address);
  const auto limit = std::chrono::steady_clock::now() + 60s;
  const auto leases = client.call("/v3/lease/leases", nlohmann::json::object(), limit).body["leases"];
  for (const auto& lease : leases) client.call("/v3/lease/revoke", lease, limit);
  EXPECT_EQ(store.get("a"), std::nullopt);
  store.set("a", "2");
  EXPECT_EQ(store.get("a"), "2");
}

TEST_F(EtcdStoreTest, SaysWhenNobodyAnswers) {
  std::uint16_t unused = test::RawServer([](int) {}).port();
  EtcdStoreOptions options = options_for({on_this_host(unused), {"no-such-host.invalid", 2379}});
  options.timeout = 2s;
  EXPECT_THAT(
      message_of([&] { EtcdStore store(options); }),
      AllOf(HasSubstr("timeout: no server of etcd answered within "),
            HasSubstr(fmt::format("127.0.0.1:{}: Connection refused", unused)),
            HasSubstr("no-such-host.invalid:2379: the name 'no-such-host.invalid'"), HasSubstr("--rdzv_endpoint")));
}

TEST_F(EtcdStoreTest, TakesTheNextServerWhenOneDoesNotAnswer) {
  const std::uint16_t unused = test::RawServer([](int) {}).port();
  const test::RawServer rude([](int) {});
  EtcdStore store(options_for({on_this_host(unused), on_this_host(rude.port()), on_this_host(etcd_->port())}));
  store.set("a", "1");
  EXPECT_EQ(store.get("a"), "1");
}

/// Hands on what is said between the store and etcd, and closes the connection in place of each `nth` answer.
void lose_answers(int connection, std::uint16_t port, int nth, std::atomic<int>& answers) {
  const UniqueFd server = test::connect_to(port);
  bool asked = false;
  while (true) {
    pollfd ready[] = {{connection, POLLIN, 0}, {server.get(), POLLIN, 0}};
    ::poll(ready, 2, -1);
    if (ready[0].revents != 0) {
      const std::string request = test::read_some(connection);
      if (request.empty() || !test::write_all(server.get(), request)) return;
      asked = true;
    }
    if (ready[1].revents != 0) {
      const std::string answer = test::read_some(server.get());
      if (std::exchange(asked, false) && ++answers % nth == 0) return;
      if (answer.empty() || !test::write_all(connection, answer)) return;
    }
  }
}

TEST_F(EtcdStoreTest, AddsOnceEvenWhenAnswersAreLost) {
  std::atomic<int> answers = 0;
  const test::RawServer lossy([&](int connection) { lose_answers(connection, etcd_->port(), 3, answers); });
  in_threads(4, [&](int) {
    EtcdStore store(options_for({on_this_host(lossy.port())}));
    for (int i = 0; i < 10; ++i) store.add("count", 1);
  });
  EXPECT_EQ(EtcdStore(options()).add("count", 0), 40);
  EXPECT_GT(answers.load(), 120);
}

TEST_F(EtcdStoreTest, ReplacesThoughAnswersAreLost) {
  std::atomic<int> answers = 0;
  const test::RawServer lossy([&](int connection) { lose_answers(connection, etcd_->port(), 2, answers); });
  EtcdStore store(options_for({on_this_host(lossy.port())}));
  EXPECT_TRUE(store.replace("a", std::nullopt, "0"));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(store.replace("a", std::to_string(i), std::to_string(i + 1)));
  EXPECT_EQ(store.get("a"), "10");
}

TEST_F(EtcdStoreTest, GoesOnWhenEtcdIsStartedAgain) {
  test::EtcdServer etcd;
  constexpr int kAdds = 200;
  std::atomic<int> done = 0;
  const auto options = options_for(servers_of(etcd));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      EtcdStore store(options);
      for (int add = 0; add < kAdds; ++add, ++done) store.add("count", 1);
    });
  }
  for (int restart = 1; restart <= 2; ++restart) {
    while (done < restart * kAdds / 4) std::this_thread::sleep_for(1ms);
    etcd.kill();
    etcd.start();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(EtcdStore(options).add("count", 0), 2 * kAdds);
}

TEST_F(EtcdStoreTest, SurvivesTheLossOfAMember) {
  test::EtcdServer::Options three;
  three.members = 3;
  test::EtcdServer etcd(three);
  EtcdStore store(options_for(servers_of(etcd, 3)));
  store.set("a", "1");
  EXPECT_EQ(store.add("count", 1), 1);
  etcd.kill(0);
  EXPECT_EQ(store.get("a"), "1");
  EXPECT_EQ(store.add("count", 1), 2);
  EXPECT_TRUE(store.replace("a", "1", "2"));

  // Without a majority etcd answers nothing, and says so.
  etcd.kill(1);
  EtcdStoreOptions impatient = options_for(servers_of(etcd, 3));
  impatient.timeout = 1s;
  EXPECT_THAT(message_of([&] { EtcdStore lonely(impatient); }),
              HasSubstr("timeout: no server of etcd answered within"));
}

}  // namespace
}  // namespace lockstep::cluster::elastic
