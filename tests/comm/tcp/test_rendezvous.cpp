// The rendezvous of ranks that encrypt: who may take part, who may not, and what strangers can do.
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/tcp/links.h>
#include <lockstep/net/tls_stream.h>

#include "comm/suite.h"
#include "net/certificate_maker.h"
#include "store/stranger.h"
#include "support/raw_server.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>

#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using detail::BackendContext;
using detail::tcp::Connection;
using Tls = std::shared_ptr<const net::PeerTls>;

Tls tls_of(const NodeFiles& node) {
  return std::make_shared<const net::PeerTls>(net::PeerTls{node.server(), node.client()});
}

/// Ranks that are threads of this process, and a store in its memory.
class EncryptedRendezvous : public testing::Test {
 protected:
  Tls tls(const Authority& authority, std::chrono::hours valid_until = std::chrono::hours(24 * 365)) {
    folders_.emplace_back();
    return tls_of(write_node(folders_.back(), authority.issue("node", {"127.0.0.1"}, valid_until), authority));
  }

  BackendContext context(int rank, int size, Tls tls) const {
    BackendContext context;
    context.store = store_;
    context.rank = rank;
    context.size = size;
    for (int one = 0; one < size; ++one) context.world_ranks.push_back(one);
    context.start_timeout = 30s;
    context.tls = std::move(tls);
    // What a job does: who failed says so, and the others hear of it.
    context.while_connecting = [this](const std::vector<int>&) {
      if (failed_) throw Error(ErrorKind::peer_lost, "test", "another rank failed");
    };
    return context;
  }

  using Met = std::future<std::vector<Connection>>;
  Met meet(BackendContext context) {
    return std::async(std::launch::async, [this, context = std::move(context)] {
      try {
        return detail::tcp::meet(context);
      } catch (...) {
        failed_ = true;
        throw;
      }
    });
  }

  /// Where that rank listens.
  std::uint16_t port_of(int rank) const {
    const auto key = "tcp/address/" + std::to_string(rank);
    store_->wait({key}, 30s);
    std::istringstream text(detail::to_text(store_->get(key)));
    int port = 0;
    text >> port;
    return static_cast<std::uint16_t>(port);
  }

  static void expect_whole(Met met, std::size_t size, std::size_t self) {
    const auto connections = met.get();
    ASSERT_EQ(connections.size(), size);
    for (std::size_t rank = 0; rank < size; ++rank)
      EXPECT_EQ(static_cast<bool>(connections[rank].socket), rank != self);
  }

  Authority authority_;
  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
  std::atomic<bool> failed_{false};

 private:
  std::list<TemporaryFolder> folders_;
};

TEST_F(EncryptedRendezvous, RanksOfOneAuthorityMeet) {
  std::vector<Met> all;
  for (int rank = 0; rank < 4; ++rank) all.push_back(meet(context(rank, 4, tls(authority_))));
  for (std::size_t rank = 0; rank < 4; ++rank) expect_whole(std::move(all[rank]), 4, rank);
}

TEST_F(EncryptedRendezvous, AnotherAuthorityIsRefusedOnBothSides) {
  const Authority other;
  auto first = meet(context(0, 2, tls(authority_)));
  auto second = meet(context(1, 2, tls(other)));
  const auto error = error_of([&] { second.get(); });
  EXPECT_EQ(error.kind(), ErrorKind::environment);
  expect_words(error, {"rank 0 at 127.0.0.1:", "TLS handshake", "not by an authority in ca_cert_path"});
  EXPECT_EQ(error_of([&] { first.get(); }).kind(), ErrorKind::peer_lost);
}

TEST_F(EncryptedRendezvous, AnExpiredCertificateIsRefused) {
  for (const bool of_first : {true, false}) {
    failed_ = false;
    store_ = c10::make_intrusive<c10d::HashStore>();
    auto first = meet(context(0, 2, tls(authority_, std::chrono::hours(of_first ? -24 : 24))));
    auto second = meet(context(1, 2, tls(authority_, std::chrono::hours(of_first ? 24 : -24))));
    const auto error = error_of([&] { second.get(); });
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    expect_words(error, {"rank 0 at 127.0.0.1:", "expired"});
    EXPECT_EQ(error_of([&] { first.get(); }).kind(), ErrorKind::peer_lost);
  }
}

/// The handshake of TLS as a client, and what the other side says then: empty, or why it refuses.
std::string shake_hands(const UniqueFd& connection, const Tls& tls) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  try {
    net::TlsStream stream(tls, net::TlsStream::Side::client, connection.get(), net::TlsStream::kSmall);
    net::await_handshake(stream, connection.get(), deadline);
    // The server's verdict comes with what it says next.
    const std::string words = "LOCKSTEP TLS 1\r\n" + std::string(40, '0');
    stream.write(reinterpret_cast<const std::byte*>(words.data()), words.size());
    stream.flush();
    std::byte byte{};
    while (std::chrono::steady_clock::now() < deadline) {
      const auto moved = stream.read(&byte, 1);
      if (moved.ended || moved.bytes > 0) return "";
      std::this_thread::sleep_for(5ms);
    }
    return "nothing came";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST_F(EncryptedRendezvous, StrangersDoNotDelayIt) {
  auto first = meet(context(0, 2, tls(authority_)));
  const auto port = port_of(0);
  std::vector<UniqueFd> strangers;
  for (const auto& words : first_words_of_strangers()) strangers.push_back(stranger_says(port, words));
  strangers.push_back(stranger_says(port, ""));  // connects and says nothing
  // With no certificate.
  auto nobody = std::make_shared<net::PeerTls>(*tls(authority_));
  nobody->client = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_client);
  nobody->client->add_certificate_authority(boost::asio::buffer(net::print_pem(*authority_.identity().certificate)));
  EXPECT_EQ(shake_hands(connect_to(port), nobody), "it requires a certificate, and this side sent none");
  // With a certificate of the authority, and not a word of this job.
  EXPECT_NE(shake_hands(connect_to(port), tls(authority_)), "nothing came");
  auto second = meet(context(1, 2, tls(authority_)));
  expect_whole(std::move(second), 2, 1);
  expect_whole(std::move(first), 2, 0);
}

TEST_F(EncryptedRendezvous, MoreStrangersThanItKeepsLeaveRoomForRanks) {
  auto first = meet(context(0, 2, tls(authority_)));
  const auto port = port_of(0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stranger_says(port, i % 2 == 0 ? "\x16" : ""));
  auto second = meet(context(1, 2, tls(authority_)));
  expect_whole(std::move(second), 2, 1);
  expect_whole(std::move(first), 2, 0);
}

TEST_F(EncryptedRendezvous, ARankThatDoesNotComeIsNamed) {
  auto late = context(0, 3, tls(authority_));
  late.start_timeout = 500ms;
  auto first = meet(std::move(late));
  const auto error = error_of([&] { first.get(); });
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  expect_words(error, {"not connected", "rank 1", "rank 2"});
}

TEST_F(EncryptedRendezvous, ALostRankEndsIt) {
  auto first = meet(context(0, 2, tls(authority_)));
  port_of(0);
  failed_ = true;
  EXPECT_EQ(error_of([&] { first.get(); }).kind(), ErrorKind::peer_lost);
}

}  // namespace
}  // namespace lockstep::test
