// The server and its clients.
#include <lockstep/store/client.h>
#include <lockstep/store/server.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::store {
namespace {

using namespace std::chrono_literals;

Time in(std::chrono::milliseconds limit) { return std::chrono::steady_clock::now() + limit; }

StoreServerOptions on_loopback() {
  StoreServerOptions options;
  options.addresses = {"127.0.0.1"};
  return options;
}

std::unique_ptr<Client> client_of(const Server& server) {
  return std::make_unique<Client>("127.0.0.1", server.port(), store::Credentials{}, in(60s));
}

void set(Client& client, const std::string& key, const std::string& value) {
  client.ask(Operation::set, MessageWriter().text(key).text(value), in(60s));
}

std::string get(Client& client, const std::string& key, std::optional<Time> deadline = in(60s)) {
  return std::string(MessageReader(client.ask(Operation::get, MessageWriter().text(key), deadline)).text());
}

std::uint64_t add(Client& client, const std::string& key, std::uint64_t delta) {
  return MessageReader(client.ask(Operation::add, MessageWriter().text(key).number(delta), in(60s))).number();
}

TEST(Server, ServesClientsOfManyThreads) {
  const Server server(on_loopback());
  constexpr int kClients = 64;
  constexpr int kRounds = 50;
  std::vector<std::jthread> threads;
  for (int own = 0; own < kClients; ++own) {
    threads.emplace_back([&, own] {
      const auto client = client_of(server);
      for (int round = 0; round < kRounds; ++round) {
        const auto key = [&](int who) { return std::to_string(round) + "/" + std::to_string(who); };
        set(*client, key(own), key(own) + " was here");
        const int next = (own + 1) % kClients;  // waits until that one has come as far
        EXPECT_EQ(get(*client, key(next)), key(next) + " was here");
        add(*client, "sum", 1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(add(*client_of(server), "sum", 0), static_cast<std::uint64_t>(kClients * kRounds));
}

TEST(Server, ThreadsShareAConnection) {
  const Server server(on_loopback());
  const auto client = client_of(server);
  const auto other = client_of(server);
  std::vector<std::jthread> threads;
  for (int own = 0; own < 8; ++own) {
    threads.emplace_back([&, own] { EXPECT_EQ(get(*client, "late/" + std::to_string(own)), "here"); });
  }
  // While those wait, other requests are answered on the same connection.
  for (std::uint64_t round = 1; round <= 200; ++round) EXPECT_EQ(add(*client, "sum", 1), round);
  for (int own = 7; own >= 0; --own) set(own % 2 == 0 ? *client : *other, "late/" + std::to_string(own), "here");
}

TEST(Server, ARequestThatTimedOutLeavesTheConnectionWhole) {
  const Server server(on_loopback());
  const auto client = client_of(server);
  for (int round = 0; round < 20; ++round) EXPECT_THROW(get(*client, "never", in(1ms)), Overdue);
  EXPECT_EQ(add(*client, "sum", 2), 2U);
  set(*client, "never", "now");
  EXPECT_EQ(get(*client, "never"), "now");
  EXPECT_EQ(add(*client, "sum", 2), 4U);
}

TEST(Server, LargeValuesAndKeysOfAnyBytesArrive) {
  const Server server(on_loopback());
  const auto client = client_of(server);
  const auto other = client_of(server);
  std::string value(20 << 20, '\0');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7 + i / 1000);
  const std::string key("a\0b\xff/\n", 6);
  std::jthread reader([&] { EXPECT_TRUE(get(*other, key) == value); });
  set(*client, key, value);
  reader.join();
  EXPECT_THROW(set(*client, "huge", std::string(kMostMessageBytes, 'x')), BadMessage);
  EXPECT_THROW(add(*client, key, 1), std::runtime_error);  // it is no number
  EXPECT_EQ(add(*client, "sum", 1), 1U);                   // and nothing is broken
}

TEST(Server, ItsEndEndsWhoWaits) {
  auto server = std::make_unique<Server>(on_loopback());
  const auto client = client_of(*server);
  std::jthread waits([&] { EXPECT_THROW(get(*client, "never", std::nullopt), Unreachable); });
  std::jthread waits_too([&] { EXPECT_THROW(get(*client, "never", in(60s)), Unreachable); });
  add(*client, "sum", 1);
  server.reset();
  waits.join();
  waits_too.join();
  EXPECT_THROW(add(*client, "sum", 1), Unreachable);
}

TEST(Server, FollowsAnotherAtTheSamePort) {
  auto options = on_loopback();
  {
    const Server first(options);
    options.port = first.port();
    set(*client_of(first), "key", "old");
    EXPECT_THROW(Server{options}, std::runtime_error);
  }
  const Server second(options);
  EXPECT_THROW(get(*client_of(second), "key", in(1ms)), Overdue);
}

TEST(Server, ListensWhereItWasAskedTo) {
  const Server everywhere(StoreServerOptions{});
  add(*client_of(everywhere), "sum", 1);
  Client("127.0.0.2", everywhere.port(), {}, in(60s));
  const Server here(on_loopback());
  EXPECT_THROW(Client("127.0.0.2", here.port(), {}, in(60s)), Unreachable);
  StoreServerOptions two;
  two.addresses = {"127.0.0.1", "127.0.0.2"};
  const Server both(two);
  add(*client_of(both), "sum", 1);
  Client("127.0.0.2", both.port(), {}, in(60s));
  StoreServerOptions foreign;
  foreign.addresses = {"192.0.2.1"};
  EXPECT_THROW(Server{foreign}, std::runtime_error);
}

}  // namespace
}  // namespace lockstep::store
