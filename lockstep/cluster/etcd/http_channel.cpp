#include <lockstep/base/error.h>
#include <lockstep/cluster/etcd/http_channel.h>
#include <lockstep/cluster/etcd/tls_context.h>
#include <lockstep/net/name_lookup.h>

#include <boost/asio/io_context.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace lockstep::cluster::etcd {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Deadline = std::chrono::steady_clock::time_point;
using ErrorCode = boost::system::error_code;

[[noreturn]] void throw_for(const ErrorCode& error, const char* step) {
  if (error == beast::error::timeout) fail(ErrorKind::timeout, "etcd", "no answer in time while {}", step);
  if (error == http::error::body_limit || error == http::error::header_limit) {
    fail(ErrorKind::data, "etcd", "the answer is longer than any of etcd's should be");
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message || error == asio::error::eof) {
    fail(ErrorKind::io, "etcd", "the connection was closed while {}", step);
  }
  if (error.category() == make_error_code(http::error::bad_version).category()) {
    fail(ErrorKind::data, "etcd", "the answer is no HTTP: {}", error.message());
  }
  if (error.category() == asio::error::get_ssl_category()) {
    fail(ErrorKind::data, "etcd", "TLS failed while {} ({})", step, error.message());
  }
  fail(ErrorKind::io, "etcd", "{} while {}", error.message(), step);
}

}  // namespace

std::string HttpServer::text() const {
  const bool brackets = host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(brackets ? "[{}]:{}" : "{}:{}"), host, port);
}

struct HttpChannel::State {
  HttpServer server;
  std::optional<asio::ssl::context> tls;
  std::size_t longest_answer;
  asio::io_context context{1};
  std::optional<beast::tcp_stream> plain;
  std::optional<TlsStream> secured;
  beast::flat_buffer buffer;
  bool connected = false;

  beast::tcp_stream& socket() { return secured ? beast::get_lowest_layer(*secured) : *plain; }

  /// Starts one operation and stays until it has ended, which the deadline of the stream makes sure of.
  template <typename Start>
  void complete(const char* step, Start start) {
    ErrorCode result = asio::error::would_block;
    start([&result](const ErrorCode& error, const auto&...) { result = error; });
    context.restart();
    context.run();
    if (result) throw_for(result, step);
  }

  void connect(Deadline deadline);
  template <typename Stream>
  HttpAnswer exchange(Stream& stream, const http::request<http::string_body>& request);
};

void HttpChannel::State::connect(Deadline deadline) {
  buffer.clear();
  if (tls) {
    secured.emplace(context, *tls);
    name_server(*secured, server.host);
  } else {
    plain.emplace(context);
  }
  const auto endpoints = net::look_up(server.host, server.port, deadline);
  socket().expires_at(deadline);
  complete("connecting", [&](auto done) { socket().async_connect(endpoints, done); });
  socket().socket().set_option(asio::ip::tcp::no_delay(true));
  if (!secured) return;
  complete("agreeing on TLS", [&](auto done) { secured->async_handshake(asio::ssl::stream_base::client, done); });
}

template <typename Stream>
HttpAnswer HttpChannel::State::exchange(Stream& stream, const http::request<http::string_body>& request) {
  complete("sending", [&](auto done) { http::async_write(stream, request, done); });
  http::response_parser<http::string_body> parser;
  parser.body_limit(longest_answer);
  complete("waiting for the answer", [&](auto done) { http::async_read(stream, buffer, parser, done); });
  connected = parser.get().keep_alive();
  return {parser.get().result_int(), std::move(parser.get().body())};
}

HttpChannel::HttpChannel(HttpServer server, const std::optional<TlsFiles>& tls, std::size_t longest_answer)
    : state_(std::make_unique<State>()) {
  state_->server = std::move(server);
  state_->longest_answer = longest_answer;
  if (tls) state_->tls = make_tls_context(*tls);
}

HttpChannel::HttpChannel(HttpChannel&&) noexcept = default;
HttpChannel& HttpChannel::operator=(HttpChannel&&) noexcept = default;
HttpChannel::~HttpChannel() = default;

const HttpServer& HttpChannel::server() const noexcept { return state_->server; }

HttpAnswer HttpChannel::post(const std::string& target, const std::string& json, Deadline deadline) {
  http::request<http::string_body> request(http::verb::post, target, 11);
  request.set(http::field::host, state_->server.text());
  request.set(http::field::content_type, "application/json");
  request.body() = json;
  request.prepare_payload();
  if (!std::exchange(state_->connected, false)) state_->connect(deadline);
  state_->socket().expires_at(deadline);
  return state_->secured ? state_->exchange(*state_->secured, request) : state_->exchange(*state_->plain, request);
}

}  // namespace lockstep::cluster::etcd
