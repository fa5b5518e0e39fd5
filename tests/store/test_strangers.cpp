// Strangers at the port of a store: whatever they do, members notice nothing.
#include <lockstep/store/client.h>
#include <lockstep/store/protocol.h>
#include <lockstep/store/server.h>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "store/stranger.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using store::Client;
using store::MessageReader;
using store::MessageWriter;
using store::Operation;

store::Time in(std::chrono::milliseconds limit) { return std::chrono::steady_clock::now() + limit; }

store::StoreServerOptions on_loopback() {
  store::StoreServerOptions options;
  options.addresses = {"127.0.0.1"};
  return options;
}

std::uint64_t add(Client& client, std::uint64_t delta) {
  return MessageReader(client.ask(Operation::add, MessageWriter().text("sum").number(delta), in(60s))).number();
}

/// The connection of a member, with what it says by hand.
UniqueFd member_says(const store::Server& server, const std::string& words) {
  return stranger_says(server.port(), store::print_hello(std::string(store::kNonceBytes, '0')) + words);
}

TEST(Strangers, ThoseWhoSpeakAreDropped) {
  const store::Server server(on_loopback());
  Client member("127.0.0.1", server.port(), {}, in(60s));
  std::uint64_t count = 0;
  for (const auto& words : first_words_of_strangers()) {
    const auto stranger = stranger_says(server.port(), words);
    EXPECT_EQ(add(member, 1), ++count);
    if (store::can_be_greeting(words)) continue;  // it may go on
    EXPECT_EQ(hear_until_end(stranger), "") << words;
  }
}

TEST(Strangers, ThoseWhoGoOnAfterARefusalAreDropped) {
  auto options = on_loopback();
  options.hello_limit = 1h;
  options.secret = "open sesame";
  const store::Server server(options);
  const std::string more(1 << 20, 'x');
  for (const auto& words : {std::string("LOCKSTEP STORE 1\r\n"),
                            store::print_hello(std::string(store::kNonceBytes, '0')) + more.substr(0, 66)}) {
    const auto stranger = stranger_says(server.port(), words);
    ssize_t sent = 0;
    while ((sent = ::send(stranger.get(), more.data(), more.size(), MSG_NOSIGNAL)) > 0) {
    }
    EXPECT_LT(sent, 0);  // it does not read on for an hour
  }
}

TEST(Strangers, ThoseWhoFallSilentAreDropped) {
  auto options = on_loopback();
  options.hello_limit = 200ms;
  options.secret = "open sesame";
  const store::Server server(options);
  Client member("127.0.0.1", server.port(), {options.secret}, in(60s));
  const auto says_nothing = stranger_says(server.port(), "");
  const auto half_a_greeting = stranger_says(server.port(), "LOCKSTEP STO");
  const auto no_proof = stranger_says(server.port(), store::print_hello(std::string(store::kNonceBytes, '0')));
  const auto half_a_proof =
      stranger_says(server.port(), store::print_hello(std::string(store::kNonceBytes, '0')) + "0000");
  EXPECT_EQ(hear_until_end(says_nothing), "");
  EXPECT_EQ(hear_until_end(half_a_greeting), "");
  EXPECT_EQ(hear_until_end(no_proof).size(), store::kChallengeBytes);
  EXPECT_EQ(hear_until_end(half_a_proof).size(), store::kChallengeBytes);
  EXPECT_EQ(add(member, 1), 1U);  // who is a member may be silent for longer
}

TEST(Strangers, OneThatSpeaksByteByByteHasNoMoreTime) {
  auto options = on_loopback();
  options.hello_limit = 300ms;
  const store::Server server(options);
  const auto slow = stranger_says(server.port(), "");
  const auto hello = store::print_hello(std::string(store::kNonceBytes, '0'));
  std::atomic<bool> ended = false;
  std::jthread speaks([&] {
    for (const char byte : hello) {
      if (ended) return;
      ::send(slow.get(), &byte, 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(50ms);  // all of it takes 2.7 s
    }
  });
  EXPECT_EQ(hear_until_end(slow), "");
  ended = true;
}

TEST(Strangers, FiveHundredThatSayNothingKeepNobodyOut) {
  auto options = on_loopback();
  options.hello_limit = 60s;
  const store::Server server(options);
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 500; ++i) idle.push_back(stranger_says(server.port(), ""));
  Client member("127.0.0.1", server.port(), {}, in(60s));
  EXPECT_EQ(add(member, 1), 1U);
  EXPECT_EQ(hear_until_end(idle.front()), "");  // the oldest made room
}

TEST(Strangers, MembersThatBreakTheRulesAreDroppedAlone) {
  auto options = on_loopback();
  options.message_limit = 200ms;
  const store::Server server(options);
  Client member("127.0.0.1", server.port(), {}, in(60s));
  const auto good = MessageWriter().number(1).number(8).message();  // counts the keys
  const std::vector<std::string> bad = {
      std::string("\xff\xff\xff\xff", 4),                          // 4 GiB are to come
      std::string("\x00\x00\x00\x04", 4) + "and no more",          // 64 MiB, which may
      good.substr(0, good.size() / 2),                             //
      good + std::string(1, '\x10'),                               // half a length
      MessageWriter().number(1).number(77).message(),              // no operation
      std::string("\x00\x00\x00\x00", 4),                          // an empty message
      MessageWriter().number(1).number(7).number(~0ULL).message()  // keys without end
  };
  std::uint64_t count = 0;
  for (const auto& words : bad) {
    const auto heard = hear_until_end(member_says(server, words));
    EXPECT_EQ(heard.substr(0, store::kGreeting.size()), store::kGreeting);
    EXPECT_EQ(add(member, 1), ++count);
  }
}

TEST(Strangers, RequestsOfOneThatIsGoneAreDropped) {
  const store::Server server(on_loopback());
  Client member("127.0.0.1", server.port(), {}, in(60s));
  for (int round = 0; round < 50; ++round) {
    const auto waits = MessageWriter().number(1).number(7).number(1).text("key").message();
    member_says(server, waits);  // and is closed at once
  }
  member.ask(Operation::set, MessageWriter().text("key").text("x"), in(60s));
  EXPECT_EQ(add(member, 1), 1U);
}

TEST(Strangers, OneThatReadsNoAnswersIsDropped) {
  const store::Server server(on_loopback());
  Client member("127.0.0.1", server.port(), {}, in(60s));
  member.ask(Operation::set, MessageWriter().text("key").text(std::string(16 << 20, 'x')), in(60s));
  std::string asks;
  for (std::uint64_t number = 1; number <= 20; ++number)
    asks += MessageWriter().number(number).number(2).text("key").message();
  const auto greedy = member_says(server, asks);
  EXPECT_EQ(add(member, 1), 1U);
  // It is told what lay in the sockets' buffers when the store gave up, and no more.
  EXPECT_LT(hear_until_end(greedy).size(), std::size_t{20} * (16 << 20));
  EXPECT_EQ(add(member, 1), 2U);
}

}  // namespace
}  // namespace lockstep::test
