// The port of a service on one thread of coroutines: TLS, WebSocket connections of members, and HTTP requests for the
// status, or for pages. It knows nothing of the messages, which are texts here.
#pragma once

#include <lockstep/base/refusal_log.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/tls_contexts.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::membership {

struct ListenerOptions {
  std::string host = "127.0.0.1";   ///< a name or an address of this machine, to listen on
  std::uint16_t port = 0;           ///< 0: a free port
  std::vector<UniqueFd> sockets{};  ///< sockets that listen already, instead of `host` and `port`
  /// Why a connection is refused; empty: it is not. Empty function: none is.
  std::function<std::string(int socket)> refuse{};
  std::string target;                                ///< the path of the WebSocket, "/v1/worker"
  std::string name;                                  ///< of the service, in HTTP answers: "a scheduler of Lockstep"
  std::string cannot_listen;                         ///< what the user can do when the port cannot be opened
  std::string tls_setting;                           ///< the setting that makes a peer use TLS, for messages
  std::shared_ptr<boost::asio::ssl::context> tls{};  ///< nullptr: plain
  net::PeriodicTask check_of_certificates{};
  std::size_t most_connections = 10000;  ///< beyond this, the oldest connections that did not register are closed
  std::size_t longest_message = std::size_t{16} * 1024;  ///< that it accepts; its own are not limited
  /// A connection with more messages than this, or more bytes of them, that its peer has not read is closed.
  std::size_t most_unread = 256;
  std::size_t most_unread_bytes = std::numeric_limits<std::size_t>::max();
  std::chrono::milliseconds step = std::chrono::seconds(10);  ///< the limit for a handshake, a request, a registration
  std::chrono::milliseconds idle = std::chrono::seconds(60);  ///< a silent connection is closed after this time
  bool keep_alive = false;  ///< send pings, so that only a dead peer, or one that does not read, counts as silent
};

/// The calls of a listener, all on the thread that runs it. Only `received` and `opened` may throw: the connection is
/// closed then, with the error as the reason.
struct ListenerCalls {
  std::function<void(std::uint64_t connection, const std::string& address)> opened;
  std::function<void(std::uint64_t connection, const std::string& text)> received;
  /// `by_service`: by this side (`close`, or a limit), not by the peer or the network.
  std::function<void(std::uint64_t connection, const std::string& reason, bool by_service)> closed;
  std::function<void()> tick;                         ///< about every 100 ms
  std::function<std::string()> status;                ///< the document of GET /v1/status
  std::function<bool(std::uint64_t)> has_registered;  ///< the others are closed after some time
  std::function<bool(std::uint64_t)> is_admitted;     ///< the end of the others is a refusal
  /// Whether a WebSocket for this target is accepted; empty: it must be `ListenerOptions::target`.
  std::function<bool(const std::string& target)> accepts{};
  /// The answer to any other request; empty: the status, or 404.
  std::function<net::HttpAnswer(const net::HttpRequest& request)> answer{};
};

/// Only for the thread that calls `run`, except `stop` and `post`.
class Listener {
 public:
  /// Opens the port. Error(io) when that cannot be done.
  Listener(ListenerOptions options, ListenerCalls calls);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  std::uint16_t port() const;

  /// Runs until `finish` was called and the connections have ended, one of `signals` arrives, or `stop` is called.
  /// Returns the signal, or 0.
  int run(const std::vector<int>& signals = {});

  /// Ends `run` soon. Thread-safe.
  void stop();
  /// Calls it on the thread that runs this, unless that has ended. Thread-safe.
  void post(std::function<void()> call);
  /// Accepts no connection any more, and ends `run` when all are closed, after 2 s at the latest.
  void finish();

  /// Closes the port and all connections, after `run`.
  void close_all();

  /// The connection of a peer that does not read is closed.
  void send(std::uint64_t connection, std::string text);
  /// Closes a connection: at once, or, without a reason, when all messages to it are sent.
  void close(std::uint64_t connection, const std::string& reason);

  RefusalLog& refusals();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::membership
