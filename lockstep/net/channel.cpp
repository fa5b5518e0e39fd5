#include <lockstep/base/error.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/reasons.h>
#include <lockstep/net/stream.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/detect_ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

namespace lockstep::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using ErrorCode = boost::system::error_code;

constexpr std::uint32_t kLongestHeader = 8 * 1024;
constexpr std::uint64_t kLongestBody = 1024;  // limit for request bodies; our clients send none

[[noreturn]] void fail_for(const ErrorCode& error, SSL* tls) {
  if (error == beast::error::timeout) fail(ErrorKind::timeout, "network", "{}", "nothing came in time");
  fail(is_refusal(error) ? ErrorKind::environment : ErrorKind::io, "network", "{}", reason_of(error, tls));
}

std::string text_of(const asio::ip::tcp::endpoint& endpoint) {
  const auto address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? "[" + address + "]:" + std::to_string(endpoint.port())
                                    : address + ":" + std::to_string(endpoint.port());
}

}  // namespace

struct Channel::State {
  State(asio::ip::tcp::socket socket, const ChannelLimits& given) : limits(given), stream(std::move(socket)) {}

  beast::tcp_stream& tcp() { return stream.next_layer().tcp(); }
  SSL* tls() {
    auto& layer = stream.next_layer().tls();
    return layer ? layer->native_handle() : nullptr;
  }
  void begin_step() { tcp().expires_after(limits.step); }
  void check(const ErrorCode& error) {
    if (error) fail_for(error, tls());
  }
  void note_peer() {
    ErrorCode gone;
    const auto endpoint = tcp().socket().remote_endpoint(gone);
    if (!gone) peer = text_of(endpoint);
    tcp().socket().set_option(asio::ip::tcp::no_delay(true), gone);
  }
  /// From here on the WebSocket has deadlines of its own.
  void use_websocket_deadlines() {
    tcp().expires_never();
    stream.set_option(websocket::stream_base::timeout{limits.step, limits.idle, limits.keep_alive});
    stream.read_message_max(limits.longest_message);
    stream.text(true);
  }

  ChannelLimits limits;
  websocket::stream<Stream, false> stream;
  beast::flat_buffer buffer;
  std::optional<http::request<http::string_body>> request;
  std::string peer = "?";
};

Channel::Channel(asio::ip::tcp::socket socket, const ChannelLimits& limits)
    : state_(std::make_unique<State>(std::move(socket), limits)) {
  state_->note_peer();
}

Channel::~Channel() = default;

const std::string& Channel::peer() const noexcept { return state_->peer; }

std::string Channel::own_address() const {
  ErrorCode gone;
  const auto endpoint = state_->tcp().socket().local_endpoint(gone);
  return gone ? "" : endpoint.address().to_string();
}

Awaitable<void> Channel::connect(std::vector<asio::ip::tcp::endpoint> endpoints) {
  ErrorCode error;
  state_->begin_step();
  co_await state_->tcp().async_connect(endpoints, asio::redirect_error(asio::use_awaitable, error));
  auto& socket = state_->tcp().socket();
  ErrorCode gone;
  if (!error && socket.local_endpoint(gone) == socket.remote_endpoint(gone)) {
    // A TCP self-connection: no program listens on this port of this host, and the kernel chose the same port as the
    // local port. Close it without TIME_WAIT, because it would keep the server from binding the port.
    socket.set_option(asio::socket_base::linger(true, 0), gone);
    socket.close(gone);
    error = asio::error::connection_refused;
  }
  state_->check(error);
  state_->note_peer();
}

Awaitable<bool> Channel::peer_begins_tls() {
  ErrorCode error;
  state_->begin_step();
  const bool begins =
      co_await beast::async_detect_ssl(state_->tcp(), state_->buffer, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
  co_return begins;
}

Awaitable<void> Channel::secure_as_server(asio::ssl::context& context) {
  ErrorCode error;
  state_->begin_step();
  auto& tls = state_->stream.next_layer().secure(context);
  const auto read = co_await tls.async_handshake(asio::ssl::stream_base::server, state_->buffer.data(),
                                                 asio::redirect_error(asio::use_awaitable, error));
  state_->buffer.consume(read);
  state_->check(error);
}

Awaitable<void> Channel::secure_as_client(asio::ssl::context& context, std::string host) {
  ErrorCode error;
  state_->begin_step();
  auto& tls = state_->stream.next_layer().secure(context);
  expect_host(tls.native_handle(), host);
  co_await tls.async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

Awaitable<HttpRequest> Channel::read_request() {
  ErrorCode error;
  http::request_parser<http::string_body> parser;
  parser.header_limit(kLongestHeader);
  parser.body_limit(kLongestBody);
  state_->begin_step();
  co_await http::async_read(state_->stream.next_layer(), state_->buffer, parser,
                            asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
  auto& request = state_->request.emplace(parser.release());
  co_return HttpRequest{std::string(request.method_string()), std::string(request.target()),
                        websocket::is_upgrade(request), request.keep_alive()};
}

Awaitable<void> Channel::respond(unsigned status, std::string content_type, std::string body) {
  ErrorCode error;
  http::response<http::string_body> response(static_cast<http::status>(status), 11, std::move(body));
  response.set(http::field::content_type, content_type);
  response.keep_alive(state_->request && state_->request->keep_alive());
  response.prepare_payload();
  state_->begin_step();
  co_await http::async_write(state_->stream.next_layer(), response, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

Awaitable<HttpResponse> Channel::get(std::string host, std::string target) {
  ErrorCode error;
  http::request<http::empty_body> request(http::verb::get, target, 11);
  request.set(http::field::host, host);
  state_->begin_step();
  co_await http::async_write(state_->stream.next_layer(), request, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
  http::response_parser<http::string_body> parser;
  parser.body_limit(state_->limits.longest_answer);
  co_await http::async_read(state_->stream.next_layer(), state_->buffer, parser,
                            asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
  co_return HttpResponse{parser.get().result_int(), std::move(parser.get().body())};
}

Awaitable<void> Channel::accept_websocket() {
  ErrorCode error;
  state_->use_websocket_deadlines();
  co_await state_->stream.async_accept(*state_->request, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

Awaitable<void> Channel::open_websocket(std::string host, std::string target) {
  ErrorCode error;
  state_->use_websocket_deadlines();
  co_await state_->stream.async_handshake(host, target, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

Awaitable<std::string> Channel::receive() {
  ErrorCode error;
  state_->buffer.clear();
  co_await state_->stream.async_read(state_->buffer, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
  co_return beast::buffers_to_string(state_->buffer.data());
}

Awaitable<void> Channel::send(std::string message) {
  ErrorCode error;
  co_await state_->stream.async_write(asio::buffer(message), asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

void Channel::close() noexcept {
  ErrorCode ignored;
  state_->tcp().socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  state_->tcp().close();
}

}  // namespace lockstep::net
