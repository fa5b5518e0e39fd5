// A blocking HTTP client over a Channel on its own io_context: one kept connection, cancellable from another thread.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/http_client.h>
#include <lockstep/net/name_lookup.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <optional>

namespace lockstep::net {
namespace {

namespace asio = boost::asio;
using Deadline = std::chrono::steady_clock::time_point;

}  // namespace

std::string HttpServer::text() const { return host_and_port(host, port); }

struct HttpClient::State {
  HttpServer server;
  std::shared_ptr<asio::ssl::context> tls;
  ChannelLimits limits;
  TlsTerms terms;
  asio::io_context context{1};
  std::optional<Channel> channel;
  std::string step;  // the current one, for messages
  std::atomic<bool> cancelled{false};

  HttpResponse ask(HttpAsk query, Deadline deadline, TakePiece take = {});
  Awaitable<HttpResponse> exchange(HttpAsk query, std::vector<asio::ip::tcp::endpoint> endpoints, Deadline deadline,
                                   TakePiece take);
  [[noreturn]] void fail_in_step(const Error& error) const;
};

// `endpoints`: empty when there is a connection.
Awaitable<HttpResponse> HttpClient::State::exchange(HttpAsk query, std::vector<asio::ip::tcp::endpoint> endpoints,
                                                    Deadline deadline, TakePiece take) {
  if (!channel) channel.emplace(asio::ip::tcp::socket(context), limits);
  // It was cancelled before there was a channel to close.
  if (cancelled) fail(ErrorKind::io, "network", "it was cancelled");
  channel->set_deadline(deadline);
  channel->set_terms(terms);
  if (!endpoints.empty()) {
    step = "connecting";
    co_await channel->connect(std::move(endpoints));
    step = "opening the TLS session";
    if (tls) co_await channel->secure_as_client(*tls, server.tls_name.empty() ? server.host : server.tls_name);
  }
  step = "sending the request";
  co_await channel->send_request(std::move(query), server.text());
  step = "waiting for the answer";
  if (take) co_return co_await channel->read_response(std::move(take));
  co_return co_await channel->read_response();
}

HttpResponse HttpClient::State::ask(HttpAsk query, Deadline deadline, TakePiece take) {
  if (cancelled) fail(ErrorKind::io, "network", "it was cancelled");
  std::vector<asio::ip::tcp::endpoint> endpoints;
  if (!channel) endpoints = look_up(server.host, server.port, deadline);
  HttpResponse response;
  std::exception_ptr trouble;
  asio::co_spawn(context, exchange(std::move(query), std::move(endpoints), deadline, std::move(take)),
                 [&](std::exception_ptr error, HttpResponse answer) {
                   trouble = std::move(error);
                   response = std::move(answer);
                 });
  context.restart();
  context.run();
  if (trouble || !response.keep_alive) channel.reset();
  try {
    if (trouble) std::rethrow_exception(trouble);
  } catch (const Error& error) {
    fail_in_step(error);
  }
  return response;
}

void HttpClient::State::fail_in_step(const Error& error) const {
  switch (error.kind()) {
    case ErrorKind::timeout: fail(error.kind(), "network", "no answer in time while {}", step);
    case ErrorKind::environment: fail(error.kind(), "network", "TLS failed while {} ({})", step, error.message());
    case ErrorKind::data: fail(error.kind(), "network", "{}", error.message());
    default: fail(error.kind(), "network", "{} while {}", error.message(), step);
  }
}

HttpClient::HttpClient(HttpServer server, std::shared_ptr<asio::ssl::context> tls, std::size_t longest_body,
                       TlsTerms terms)
    : state_(std::make_unique<State>()) {
  state_->server = std::move(server);
  state_->tls = std::move(tls);
  state_->limits.longest_answer = longest_body;
  state_->terms = std::move(terms);
}

HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

const HttpServer& HttpClient::server() const noexcept { return state_->server; }

HttpResponse HttpClient::get(const std::string& target, Deadline deadline) {
  return state_->ask({"GET", target}, deadline);
}

HttpResponse HttpClient::send(HttpAsk ask, Deadline deadline) { return state_->ask(std::move(ask), deadline); }

HttpResponse HttpClient::stream(HttpAsk ask, Deadline deadline, std::function<void(std::string_view)> take) {
  return state_->ask(std::move(ask), deadline, std::move(take));
}

void HttpClient::cancel() noexcept {
  state_->cancelled = true;
  // The thread of a running request runs the context, and with it this handler.
  asio::post(state_->context, [state = state_.get()] {
    if (state->channel) state->channel->close();
  });
}

HttpResponse HttpClient::post(const std::string& target, const std::string& json, Deadline deadline) {
  return state_->ask({"POST", target, "application/json", json}, deadline);
}

}  // namespace lockstep::net
