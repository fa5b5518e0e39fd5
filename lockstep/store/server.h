// The server of Lockstep's store: one thread that serves all connections and waits for none of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::store {

struct ServerOptions {
  std::vector<std::string> addresses{};  ///< where it listens, in digits; empty: on all addresses of this host
  std::uint16_t port = 0;                ///< 0: one that the kernel chooses
  std::string secret{};                  ///< empty: everybody who speaks the protocol is a member

  /// For all that comes before a connection is a member, and for the rest of a message that has begun.
  std::chrono::milliseconds hello_limit = std::chrono::seconds(10);
  std::chrono::milliseconds message_limit = std::chrono::seconds(60);
  /// Connections that are no members yet. One more takes the place of the oldest, once that is `shortest_stay` old;
  /// until then it waits in the kernel's queue.
  std::size_t most_strangers = 128;
  std::chrono::milliseconds shortest_stay = std::chrono::seconds(1);
};

/// Listens as long as this object exists. Connections that say what no member would say, or nothing, are closed, with
/// a line in the log (at most ten a minute); no other connection notices.
class Server {
 public:
  /// std::runtime_error with the kernel's words when it cannot listen.
  explicit Server(ServerOptions options);
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
