// Coroutines over Boost.Beast: HTTP requests and answers, WebSocket messages and TLS handshakes, with deadlines.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/reasons.h>

#include <fcntl.h>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/detect_ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/teardown.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace lockstep::net {

/// A byte stream over TCP, plain or with TLS, as one type, so that code that uses it is compiled once. Satisfies Asio's
/// requirements of an asynchronous stream. Not movable, not copyable.
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

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;

constexpr std::uint32_t kLongestHeader = 8 * 1024;
constexpr std::uint64_t kLongestBody = 1024;  // limit for request bodies; our clients send none
constexpr std::size_t kLongestRead = std::size_t{64} * 1024;

[[noreturn]] void fail_for(const ErrorCode& error, SSL* tls, const TlsTerms& terms) {
  if (error == beast::error::timeout) fail(ErrorKind::timeout, "network", "{}", "nothing was received in time");
  const auto kind = is_refusal(error) ? ErrorKind::environment : is_no_http(error) ? ErrorKind::data : ErrorKind::io;
  fail(kind, "network", "{}", reason_of(error, tls, terms));
}

std::string text_of(const asio::ip::tcp::endpoint& endpoint) {
  const auto address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? "[" + address + "]:" + std::to_string(endpoint.port())
                                    : address + ":" + std::to_string(endpoint.port());
}

template <typename Header>
std::optional<std::chrono::seconds> retry_after_of(const Header& header) {
  const auto text = header[http::field::retry_after];
  const auto seconds = parse_integer(std::string_view(text.data(), text.size()));
  if (!seconds || *seconds < 0 || *seconds > 3600) return std::nullopt;  // otherwise it is a date
  return std::chrono::seconds(*seconds);
}

}  // namespace

struct Channel::State {
  State(asio::ip::tcp::socket socket, const ChannelLimits& given)
      : limits(given), stream(std::move(socket)), buffer(limits.longest_message + kLongestRead) {}

  beast::tcp_stream& tcp() { return stream.next_layer().tcp(); }
  SSL* tls() {
    auto& layer = stream.next_layer().tls();
    return layer ? layer->native_handle() : nullptr;
  }
  void begin_step() { tcp().expires_at(deadline ? *deadline : Clock::now() + limits.step); }
  void check(const ErrorCode& error) {
    if (error) fail_for(error, tls(), terms);
  }
  void check_answer(const ErrorCode& error);
  template <typename Parser>
  Awaitable<ErrorCode> read(Parser& parser);
  void note_peer() {
    ErrorCode gone;
    const auto endpoint = tcp().socket().remote_endpoint(gone);
    if (!gone) peer = text_of(endpoint);
    tcp().socket().set_option(asio::ip::tcp::no_delay(true), gone);
    // A program that this process starts would keep the connection open, and the peer would not see its end.
    if (tcp().socket().is_open()) ::fcntl(tcp().socket().native_handle(), F_SETFD, FD_CLOEXEC);
  }
  /// From here on the WebSocket has deadlines of its own.
  void use_websocket_deadlines() {
    tcp().expires_never();
    stream.set_option(websocket::stream_base::timeout{limits.step, limits.idle, limits.keep_alive});
    stream.read_message_max(limits.longest_message);
    stream.text(true);
  }

  ChannelLimits limits;
  std::optional<Clock::time_point> deadline;
  TlsTerms terms;
  websocket::stream<Stream, false> stream;
  beast::flat_buffer buffer;
  std::optional<http::request<http::string_body>> request;
  std::string peer = "?";
};

// Beast 1.74 does not detect a body that is too long when its first bytes arrive together with the header. Reading the
// header by itself avoids that.
template <typename Parser>
Awaitable<ErrorCode> Channel::State::read(Parser& parser) {
  ErrorCode error;
  parser.header_limit(kLongestHeader);
  begin_step();
  co_await http::async_read_header(stream.next_layer(), buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  if (error || parser.is_done()) co_return error;
  co_await http::async_read(stream.next_layer(), buffer, parser, asio::redirect_error(asio::use_awaitable, error));
  co_return error;
}

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

int Channel::descriptor() const noexcept {
  auto& socket = state_->tcp().socket();
  return socket.is_open() ? socket.native_handle() : -1;
}

void Channel::set_deadline(Clock::time_point deadline) { state_->deadline = deadline; }

void Channel::set_terms(TlsTerms terms) { state_->terms = std::move(terms); }

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

Awaitable<void> Channel::secure_as_client(asio::ssl::context& context, std::optional<std::string> host) {
  ErrorCode error;
  state_->begin_step();
  auto& tls = state_->stream.next_layer().secure(context);
  if (host) expect_host(tls.native_handle(), *host);
  co_await tls.async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

Awaitable<HttpRequest> Channel::read_request() {
  http::request_parser<http::string_body> parser;
  parser.body_limit(kLongestBody);
  const ErrorCode error = co_await state_->read(parser);
  state_->check(error);
  auto& request = state_->request.emplace(parser.release());
  co_return HttpRequest{std::string(request.method_string()), std::string(request.target()),
                        websocket::is_upgrade(request), request.keep_alive()};
}

Awaitable<void> Channel::respond(unsigned status, std::string content_type, std::string body) {
  HttpAnswer answer;
  answer.status = status;
  answer.content_type = std::move(content_type);
  answer.body = std::move(body);
  co_await respond(std::move(answer));
}

Awaitable<void> Channel::respond(HttpAnswer answer) {
  ErrorCode error;
  http::response<http::string_body> response(static_cast<http::status>(answer.status), 11, std::move(answer.body));
  if (!answer.content_type.empty()) response.set(http::field::content_type, answer.content_type);
  for (const auto& [name, value] : answer.fields) response.set(name, value);
  response.keep_alive(!answer.close && state_->request && state_->request->keep_alive());
  response.prepare_payload();
  state_->begin_step();
  co_await http::async_write(state_->stream.next_layer(), response, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

Awaitable<void> Channel::send_request(HttpAsk ask, std::string host) {
  ErrorCode error;
  http::request<http::string_body> request(http::string_to_verb(ask.method), ask.target, 11);
  request.set(http::field::host, host);
  if (!ask.content_type.empty()) request.set(http::field::content_type, ask.content_type);
  for (const auto& [name, value] : ask.fields) request.set(name, value);
  request.body() = std::move(ask.body);
  request.prepare_payload();
  state_->begin_step();
  co_await http::async_write(state_->stream.next_layer(), request, asio::redirect_error(asio::use_awaitable, error));
  state_->check(error);
}

void Channel::State::check_answer(const ErrorCode& error) {
  if (error == http::error::header_limit) {
    fail(ErrorKind::data, "network", "the header of its answer is longer than {} bytes", kLongestHeader);
  }
  if (error == http::error::body_limit) {
    fail(ErrorKind::data, "network", "the body of its answer is longer than {} bytes", limits.longest_answer);
  }
  if (error == http::error::buffer_overflow) fail(ErrorKind::data, "network", "a line of its answer is too long");
  check(error);
}

Awaitable<HttpResponse> Channel::read_response() {
  http::response_parser<http::string_body> parser;
  parser.body_limit(state_->limits.longest_answer);
  state_->check_answer(co_await state_->read(parser));
  // Bytes after the answer would be read as the next answer.
  const bool keep_alive = parser.keep_alive() && state_->buffer.size() == 0;
  const auto retry_after = retry_after_of(parser.get());
  co_return HttpResponse{parser.get().result_int(), std::move(parser.get().body()), keep_alive, retry_after};
}

Awaitable<HttpResponse> Channel::read_response(TakePiece take) {
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());  // Boost 1.74 treats boost::none as 0
  parser.header_limit(kLongestHeader);
  ErrorCode error;
  state_->begin_step();
  co_await http::async_read_header(state_->stream.next_layer(), state_->buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  state_->check_answer(error);
  const bool good = parser.get().result() == http::status::ok;
  HttpResponse response{parser.get().result_int(), "", false, retry_after_of(parser.get())};
  std::vector<char> piece(kLongestRead);
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    // Not async_read(), which would wait until the piece is full.
    co_await http::async_read_some(state_->stream.next_layer(), state_->buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::need_buffer) error = {};
    state_->check_answer(error);
    const std::string_view text(piece.data(), piece.size() - parser.get().body().size);
    if (text.empty()) continue;
    if (good) {
      take(text);
    } else if (response.body.size() + text.size() <= state_->limits.longest_answer) {
      response.body += text;
    } else {
      state_->check_answer(http::error::body_limit);
    }
  }
  response.keep_alive = parser.keep_alive() && state_->buffer.size() == 0;
  co_return response;
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

Awaitable<void> sleep(boost::asio::steady_timer& timer, std::chrono::milliseconds time) {
  boost::system::error_code woken;
  timer.expires_after(time);
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
}

}  // namespace lockstep::net
