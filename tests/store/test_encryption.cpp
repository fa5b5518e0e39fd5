// Connections to a store under TLS: who is let in, and what is said to the others.
#include <lockstep/base/error.h>
#include <lockstep/store/client.h>
#include <lockstep/store/protocol.h>
#include <lockstep/store/server.h>
#include <lockstep/world/host_addresses.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/certificate_maker.h"
#include "store/stranger.h"
#include "support/raw_server.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using store::Client;
using store::Credentials;
using store::MessageReader;
using store::MessageWriter;
using store::Operation;
using testing::HasSubstr;
using Tls = std::shared_ptr<const net::PeerTls>;

class EncryptedStore : public testing::Test {
 protected:
  Tls tls(const Authority& authority, std::chrono::hours valid_until = std::chrono::hours(24 * 365)) {
    const auto node = write_node(folder_, authority.issue(std::to_string(++nodes_), {"node"}, valid_until), authority);
    return std::make_shared<const net::PeerTls>(net::PeerTls{node.server(), node.client()});
  }

  /// On all addresses: on loopback alone nothing is encrypted.
  store::StoreServerOptions options(std::string secret = "") {
    store::StoreServerOptions options;
    options.tls = tls(authority_);
    options.secret = std::move(secret);
    return options;
  }

  static store::Time in(std::chrono::milliseconds limit) { return std::chrono::steady_clock::now() + limit; }

  static std::string refusal(std::uint16_t port, const Credentials& credentials,
                             const std::string& host = "127.0.0.1") {
    try {
      const Client client(host, port, credentials, in(30s));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::environment);
      return error.message();
    }
    return "it was let in";
  }

  Authority authority_;

 private:
  TemporaryFolder folder_;
  int nodes_ = 0;
};

void set(Client& client, const std::string& key, const std::string& value) {
  client.ask(Operation::set, MessageWriter().text(key).text(value), std::chrono::steady_clock::now() + 60s);
}

std::string get(Client& client, const std::string& key) {
  const auto answer = client.ask(Operation::get, MessageWriter().text(key), std::chrono::steady_clock::now() + 60s);
  return std::string(MessageReader(answer).text());
}

TEST_F(EncryptedStore, ServesClientsOfManyThreads) {
  for (const std::string secret : {"", "open sesame"}) {
    const store::Server server(options(secret));
    Client shared("127.0.0.1", server.port(), {secret, tls(authority_)}, in(60s));
    std::vector<std::thread> threads;
    for (int own = 0; own < 4; ++own) {
      threads.emplace_back([&, own, tls = tls(authority_)] {
        Client client("127.0.0.1", server.port(), {secret, tls}, in(60s));
        for (int round = 0; round < 20; ++round) {
          const auto key = std::to_string(own) + "/" + std::to_string(round);
          const std::string value(static_cast<std::size_t>(round) * 50'000, static_cast<char>('a' + own));
          auto& writer = round % 2 == 0 ? client : shared;
          auto& reader = round % 2 == 0 ? shared : client;
          set(writer, key, value);
          EXPECT_EQ(get(reader, key), value);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

TEST_F(EncryptedStore, WaitersAreToldOfAKey) {
  const store::Server server(options());
  Client waits("127.0.0.1", server.port(), {"", tls(authority_)}, in(60s));
  Client sets("127.0.0.1", server.port(), {"", tls(authority_)}, in(60s));
  std::thread waiter([&] { EXPECT_EQ(get(waits, "key"), "value"); });
  std::this_thread::sleep_for(50ms);
  set(sets, "key", "value");
  waiter.join();
  EXPECT_THROW(waits.ask(Operation::get, MessageWriter().text("never"), in(50ms)), store::Overdue);
  set(waits, "still", "there");
}

TEST_F(EncryptedStore, WhoDoesNotEncryptIsTold) {
  const store::Server server(options());
  EXPECT_THAT(refusal(server.port(), {}), HasSubstr("encrypts, and this process does not"));
  EXPECT_THAT(refusal(server.port(), {"open sesame"}), HasSubstr("LOCKSTEP_ENCRYPT"));
}

TEST_F(EncryptedStore, ClientsThatEncryptAcceptAPlainOneOnThisHostAlone) {
  store::StoreServerOptions plain;
  const store::Server server(plain);
  Client client("127.0.0.1", server.port(), {"", tls(authority_)}, in(60s));
  set(client, "key", "value");
  const auto own = own_addresses();
  const auto outward = std::find_if_not(own.begin(), own.end(), is_loopback_address);
  if (outward == own.end()) GTEST_SKIP() << "this host has no address but loopback";
  EXPECT_THAT(refusal(server.port(), {"", tls(authority_)}, *outward),
              HasSubstr("this process encrypts, and the store"));
}

TEST_F(EncryptedStore, OnLoopbackAloneNothingIsEncrypted) {
  auto local = options();
  local.addresses = {"127.0.0.1"};
  const store::Server server(local);
  Client plain("127.0.0.1", server.port(), {}, in(60s));
  Client encrypting("127.0.0.1", server.port(), {"", tls(authority_)}, in(60s));
  set(plain, "key", "value");
  EXPECT_EQ(get(encrypting, "key"), "value");
}

TEST_F(EncryptedStore, CertificatesOfOthersAreRefused) {
  const store::Server server(options());
  const Authority other;
  EXPECT_THAT(refusal(server.port(), {"", tls(other)}), HasSubstr("TLS handshake"));
  EXPECT_THAT(refusal(server.port(), {"", tls(authority_, std::chrono::hours(-24))}), HasSubstr("expired"));
  // One that trusts the store, and shows nothing.
  auto nobody = std::make_shared<net::PeerTls>(*tls(authority_));
  nobody->client = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_client);
  nobody->client->add_certificate_authority(boost::asio::buffer(net::print_pem(*authority_.identity().certificate)));
  EXPECT_THAT(refusal(server.port(), {"", nobody}), HasSubstr("this side sent none"));
  // A store with the certificate of another authority is no store of this job.
  store::StoreServerOptions strange;
  strange.tls = tls(other);
  const store::Server stranger(strange);
  EXPECT_THAT(refusal(stranger.port(), {"", tls(authority_)}), HasSubstr("authority"));
  // And a secret is wanted as ever.
  const store::Server secretive(options("open sesame"));
  EXPECT_THAT(refusal(secretive.port(), {"guess", tls(authority_)}), HasSubstr("secret"));
  EXPECT_THAT(refusal(secretive.port(), {"", tls(authority_)}), HasSubstr("secret"));
}

TEST_F(EncryptedStore, StrangersDoNotDelayMembers) {
  auto quick = options();
  quick.hello_limit = 500ms;
  const store::Server server(quick);
  Client member("127.0.0.1", server.port(), {"", tls(authority_)}, in(60s));
  std::vector<UniqueFd> strangers;
  for (const auto& words : first_words_of_strangers()) strangers.push_back(stranger_says(server.port(), words));
  const std::string hello = store::print_hello(std::string(store::kNonceBytes, '0'));
  strangers.push_back(stranger_says(server.port(), hello));           // and no TLS behind it
  strangers.push_back(stranger_says(server.port(), hello + "\x16"));  // the first byte of TLS
  strangers.push_back(stranger_says(server.port(), hello + std::string(200, 'x')));
  for (int times = 0; times < 20; ++times) set(member, "key", std::to_string(times));
  for (const auto& stranger : strangers) hear_until_end(stranger);
  EXPECT_EQ(get(member, "key"), "19");
}

TEST_F(EncryptedStore, TheEndOfTheStoreIsNoticed) {
  auto server = std::make_unique<store::Server>(options());
  Client member("127.0.0.1", server->port(), {"", tls(authority_)}, in(60s));
  std::thread waiter([&] { EXPECT_THROW(get(member, "never"), store::Unreachable); });
  std::this_thread::sleep_for(50ms);
  server.reset();
  waiter.join();
}

}  // namespace
}  // namespace lockstep::test
