// One connection between two ranks, plain or encrypted: messages of all lengths, in any order, under keys that change.
#include <lockstep/comm/tcp/link.h>

#include "comm/suite.h"
#include "net/certificate_maker.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using detail::tcp::Connection;
using detail::tcp::Exchange;
using detail::tcp::Link;
using detail::tcp::Message;
using detail::tcp::Operation;
using detail::tcp::Results;
using detail::tcp::Schedule;
using detail::tcp::Stream;

constexpr std::size_t kLong = 3 << 20;  // bytes: sent only once it is asked for

/// Both ends, in one thread.
class TwoEnds {
 public:
  explicit TwoEnds(bool encrypted, std::uint64_t records_of_key = Stream::kRecordsOfKey) {
    const Authority authority;
    const auto node = write_node(folder_, authority.issue("node"), authority);
    const auto tls = std::make_shared<const net::PeerTls>(net::PeerTls{node.server(), node.client()});
    std::array<int, 2> sockets{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
    std::array<Connection, 2> connections;
    for (const int end : {0, 1}) {
      auto& connection = connections[static_cast<std::size_t>(end)];
      connection = {UniqueFd(sockets[static_cast<std::size_t>(end)]), nullptr, "rank " + std::to_string(1 - end),
                    "rank " + std::to_string(1 - end) + " at its place"};
      const auto side = end == 0 ? Stream::Side::server : Stream::Side::client;
      const int socket = connection.socket.get();
      connection.stream =
          encrypted ? std::make_unique<Stream>(socket, tls, side, records_of_key) : std::make_unique<Stream>(socket);
    }
    bool done = false;
    while (!done) {
      done = true;
      for (auto& connection : connections) {
        if (connection.stream->handshake() != Stream::Wait::nothing) done = false;
      }
    }
    for (const int end : {0, 1}) {
      const auto i = static_cast<std::size_t>(end);
      ends[i] = std::make_unique<Link>(std::move(connections[i]), results[i]);
    }
  }

  void send(int end, std::uint64_t tag, std::vector<char>& bytes) { ends[i(end)]->send(message(tag, bytes)); }
  void receive(int end, std::uint64_t tag, std::vector<char>& bytes) { ends[i(end)]->receive(message(tag, bytes)); }

  /// Moves data until nothing moves any more.
  void settle() {
    int quiet = 0;
    while (quiet < 3) {
      const auto before = progress();
      for (const auto& end : ends) {
        end->write();
        end->read();
      }
      quiet = progress() == before ? quiet + 1 : 0;
    }
  }

  std::array<Results, 2> results;
  std::array<std::unique_ptr<Link>, 2> ends;

 private:
  static std::size_t i(int end) { return static_cast<std::size_t>(end); }
  static Message message(std::uint64_t tag, std::vector<char>& bytes) {
    auto operation = std::make_shared<Operation>(tag, Schedule::of(std::vector<Exchange>{}), std::vector<at::Tensor>{});
    return {std::move(operation), 0, reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  std::vector<std::size_t> progress() const {
    std::vector<std::size_t> all;
    for (const int end : {0, 1}) {
      all.push_back(results[i(end)].completed.size());
      all.push_back(results[i(end)].failed.size());
      all.push_back(ends[i(end)]->waiting_bytes());
    }
    return all;
  }

  TemporaryFolder folder_;
};

std::vector<char> noise(std::size_t bytes, unsigned seed) {
  std::vector<char> text(bytes);
  for (auto& byte : text) byte = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
  return text;
}

/// The parameter: whether the connection is encrypted.
class LinkTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Streams, LinkTest, testing::Bool(),
                         [](const auto& one) { return one.param ? "Tls" : "Plain"; });

TEST_P(LinkTest, CarriesMessagesOfAllLengths) {
  TwoEnds two(GetParam());
  unsigned seed = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8192}, std::size_t{8193},
                                  std::size_t{256} << 10, (std::size_t{256} << 10) + 1, kLong}) {
    for (const bool asked_first : {true, false}) {
      for (const int from : {0, 1}) {
        auto sent = noise(bytes, ++seed);
        std::vector<char> received(bytes);
        if (asked_first) two.receive(1 - from, seed, received);
        two.send(from, seed, sent);
        two.settle();
        if (!asked_first) two.receive(1 - from, seed, received);
        two.settle();
        EXPECT_EQ(received, sent) << bytes << (asked_first ? " asked first" : " asked later");
      }
    }
  }
  for (const auto& results : two.results) {
    EXPECT_EQ(results.completed.size(), 2u * 7 * 2);
    EXPECT_TRUE(results.failed.empty());
  }
}

TEST_P(LinkTest, AMessageThatNobodyAsksForHoldsUpNoOther) {
  TwoEnds two(GetParam());
  auto first = noise(kLong, 1);
  auto second = noise(1000, 2);
  auto third = noise(kLong, 3);
  std::vector<char> got_first(kLong), got_second(1000), got_third(kLong);
  two.send(0, 1, first);
  two.send(0, 2, second);
  two.send(0, 3, third);
  two.receive(1, 3, got_third);
  two.receive(1, 2, got_second);
  two.settle();
  EXPECT_EQ(got_third, third);
  EXPECT_EQ(got_second, second);
  EXPECT_EQ(two.results[1].completed.size(), 2u);
  two.receive(1, 1, got_first);
  two.settle();
  EXPECT_EQ(got_first, first);
}

TEST_P(LinkTest, MessagesOfOneTagComeInTheirOrder) {
  TwoEnds two(GetParam());
  std::vector<std::vector<char>> sent = {noise(kLong, 1), noise(10, 2), noise(kLong, 3), noise(20, 4)};
  std::vector<std::vector<char>> received;
  for (auto& bytes : sent) {
    two.send(0, 7, bytes);
    received.emplace_back(bytes.size());
  }
  two.settle();
  for (auto& bytes : received) two.receive(1, 7, bytes);
  two.settle();
  EXPECT_EQ(received, sent);
}

// OpenSSL would use one key for ever.
TEST(Link, KeysChange) {
  TwoEnds two(true, 3);
  for (unsigned round = 0; round < 20; ++round) {
    for (const int from : {0, 1}) {
      auto sent = noise(round % 2 == 0 ? kLong : 100, round);
      std::vector<char> received(sent.size());
      two.receive(1 - from, round, received);
      two.send(from, round, sent);
      two.settle();
      ASSERT_EQ(received, sent) << round;
    }
  }
}

TEST_P(LinkTest, ADifferentLengthIsAnErrorThatSaysBoth) {
  for (const std::size_t bytes : {std::size_t{5}, kLong}) {
    for (const bool asked_first : {true, false}) {
      TwoEnds two(GetParam());
      auto sent = noise(bytes, 1);
      std::vector<char> other(4);
      if (asked_first) two.receive(1, 7 | detail::tcp::kMessageBit, other);
      two.send(0, 7 | detail::tcp::kMessageBit, sent);
      two.settle();
      if (!asked_first) two.receive(1, 7 | detail::tcp::kMessageBit, other);
      ASSERT_EQ(two.results[1].failed.size(), 1u);
      const auto& error = two.results[1].failed.front().second;
      EXPECT_EQ(error.kind(), ErrorKind::mismatch);
      expect_words(error, {"rank 0 sent " + std::to_string(bytes) + " bytes with tag 7", " has 4"});
    }
  }
}

TEST_P(LinkTest, WhatCameWholeIsThereAfterThePeerHasGone) {
  TwoEnds two(GetParam());
  auto sent = noise(1000, 1);
  std::vector<char> received(1000), never(1000);
  two.send(0, 1, sent);
  two.settle();
  two.ends[0]->end();
  two.ends[0].reset();
  for (int times = 0; times < 3; ++times) two.ends[1]->read();
  EXPECT_TRUE(two.ends[1]->broken());
  two.receive(1, 1, received);
  EXPECT_EQ(received, sent);
  two.receive(1, 2, never);
  ASSERT_EQ(two.results[1].failed.size(), 1u);
  EXPECT_EQ(two.results[1].failed.front().second.kind(), ErrorKind::peer_lost);
  expect_words(two.results[1].failed.front().second, {"rank 0", "left the group"});
}

}  // namespace
}  // namespace lockstep::test
