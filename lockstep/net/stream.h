// A byte stream over TCP, plain or with TLS, as one type, so that code that uses it is compiled once. Internal to net/.
#pragma once

#include <utility>  // Asio 1.74's awaitable.hpp needs it and does not include it

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/websocket/teardown.hpp>
#include <optional>

namespace lockstep::net {

/// Satisfies Asio's requirements of an asynchronous stream. Not movable, not copyable.
class Stream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;
  using Tls = boost::asio::ssl::stream<boost::beast::tcp_stream&>;

  explicit Stream(boost::asio::ip::tcp::socket socket) : tcp_(std::move(socket)) {}

  executor_type get_executor() { return tcp_.get_executor(); }
  boost::beast::tcp_stream& tcp() { return tcp_; }

  /// Switches the stream to TLS; the caller then runs the handshake. `context` must outlive the stream.
  Tls& secure(boost::asio::ssl::context& context) { return tls_.emplace(tcp_, context); }
  std::optional<Tls>& tls() { return tls_; }

  template <typename Buffers, typename Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    return tcp_.async_read_some(buffers, std::forward<Handler>(handler));
  }

  template <typename Buffers, typename Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    return tcp_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::optional<Tls> tls_;
};

/// Customization points of Beast: they close the TCP connection when a WebSocket ends.
inline void beast_close_socket(Stream& stream) { stream.tcp().close(); }

template <typename Handler>
void async_teardown(boost::beast::role_type, Stream& stream, Handler&& handler) {
  stream.tcp().close();
  boost::asio::post(stream.get_executor(),
                    [handler = std::forward<Handler>(handler)]() mutable { handler(boost::system::error_code{}); });
}

}  // namespace lockstep::net
