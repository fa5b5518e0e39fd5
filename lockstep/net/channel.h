// One TCP connection with HTTP or, after an upgrade, WebSocket messages; plain or through TLS. And a sleep for the
// coroutines that use it.
#pragma once

#include <lockstep/net/http_messages.h>
#include <lockstep/net/tls_terms.h>

#include <utility>  // Asio 1.74's awaitable.hpp needs it and does not include it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::net {

template <typename T>
using Awaitable = boost::asio::awaitable<T>;

struct HttpRequest {
  std::string method;
  std::string target;
  bool wants_websocket = false;
  bool keep_alive = false;
};

/// Receives a response's body as it arrives, in pieces of any size.
using TakePiece = std::function<void(std::string_view)>;

/// Time and size limits of a channel.
struct ChannelLimits {
  std::chrono::milliseconds step = std::chrono::seconds(10);  ///< limit of a handshake, a request, or an answer
  std::chrono::milliseconds idle = std::chrono::seconds(30);  ///< a silent WebSocket is closed after this time
  bool keep_alive = false;  ///< send pings to a silent peer, so that only a dead peer counts as idle
  std::size_t longest_message = std::size_t{16} * 1024;
  std::size_t longest_answer = std::size_t{64} * 1024 * 1024;  ///< limit of an HTTP response to a client
};

/// A connection; every operation has a deadline. Errors are Error(io), Error(timeout), Error(data) for a response that
/// is not HTTP or is too long, or, for TLS problems that a retry cannot fix, Error(environment). Their message is only
/// the reason, as a clause to follow the peer's name. Not thread-safe: one thread runs the executor. One reader and one
/// writer at a time.
class Channel {
 public:
  Channel(boost::asio::ip::tcp::socket socket, const ChannelLimits& limits);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  /// "10.0.0.2:4711"; "?" before `connect`.
  const std::string& peer() const noexcept;
  /// This side's address, without the port; empty when it is not connected.
  std::string own_address() const;

  /// Sets one deadline for all following steps, which replaces the limit of a step. Not for WebSockets.
  void set_deadline(std::chrono::steady_clock::time_point deadline);
  /// The names of settings in messages about failed TLS.
  void set_terms(TlsTerms terms);

  Awaitable<void> connect(std::vector<boost::asio::ip::tcp::endpoint> endpoints);

  /// Whether the first bytes from the peer begin a TLS handshake.
  Awaitable<bool> peer_begins_tls();
  /// The TLS handshake. `context` must outlive the channel. A client checks that the server's certificate is for
  /// `host`; nullopt: accepts any certificate that `context` trusts.
  Awaitable<void> secure_as_server(boost::asio::ssl::context& context);
  Awaitable<void> secure_as_client(boost::asio::ssl::context& context, std::optional<std::string> host);

  Awaitable<HttpRequest> read_request();
  Awaitable<void> respond(HttpAnswer answer);
  Awaitable<void> respond(unsigned status, std::string content_type, std::string body);
  /// `host` is for the field Host.
  Awaitable<void> send_request(HttpAsk ask, std::string host);
  Awaitable<HttpResponse> read_response();
  /// The same for a body without end: with status 200 `take` gets its pieces as they arrive, and the response has no
  /// body. The limit of a body's length does not apply then.
  Awaitable<HttpResponse> read_response(TakePiece take);

  /// Accepts the upgrade to WebSocket that the last request contained.
  Awaitable<void> accept_websocket();
  Awaitable<void> open_websocket(std::string host, std::string target);
  Awaitable<std::string> receive();
  Awaitable<void> send(std::string message);

  /// The socket's descriptor, which stays the channel's; -1 before `connect`.
  int descriptor() const noexcept;

  /// Cancels all pending operations. The peer detects the end of the connection.
  void close() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// For co_spawn: the thread that runs the context gets what the coroutine throws.
inline void rethrow(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

/// Returns after `time`, or as soon as other code cancels or sets `timer`; the caller cannot distinguish these cases.
Awaitable<void> sleep(boost::asio::steady_timer& timer, std::chrono::milliseconds time);

}  // namespace lockstep::net
