// The server of Lockstep's store: one thread that serves all connections with non-blocking I/O.
#pragma once

#include <lockstep/net/tls_contexts.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::store {

struct StoreServerOptions {
  std::vector<std::string> addresses{};  ///< numeric addresses to listen on; empty: all addresses of this host
  std::uint16_t port = 0;                ///< 0: the kernel chooses one
  std::string
      secret{};  ///< empty: accepts each client that uses the protocol; at loopback, only those of this user or root
  /// Encrypts all connections and accepts only clients with a certificate. No effect on loopback addresses alone, which
  /// no other host reaches. nullptr: no encryption.
  std::shared_ptr<const net::PeerTls> tls{};

  /// The time limits of the whole handshake, and of receiving a message once its first byte has arrived.
  std::chrono::milliseconds hello_limit = std::chrono::seconds(10);
  std::chrono::milliseconds message_limit = std::chrono::seconds(60);
  /// The largest number of connections that have not completed the handshake. A further connection replaces the oldest
  /// of them once that is `shortest_stay` old; until then it waits in the kernel's queue.
  std::size_t most_strangers = 128;
  std::chrono::milliseconds shortest_stay = std::chrono::seconds(1);
};

/// Listens as long as this object exists. Connections that send invalid messages, or nothing, are closed with a line in
/// the log (at most ten per minute); other connections are not affected.
class Server {
 public:
  /// std::runtime_error with the kernel's message when it cannot listen.
  explicit Server(StoreServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  std::uint16_t port() const { return port_; }

 private:
  class Running;

  std::uint16_t port_ = 0;
  std::unique_ptr<Running> running_;
};

}  // namespace lockstep::store
