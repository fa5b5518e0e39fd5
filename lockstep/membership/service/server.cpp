// The scheduler's listener on one thread of coroutines: TLS, WebSocket sessions of workers, GET /v1/status.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/membership/service/connection.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/membership/service/service.h>
#include <lockstep/net/name_lookup.h>
#include <lockstep/net/sleep.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <memory>

namespace lockstep::membership {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr int kBacklog = 4096;

net::ChannelLimits channel_limits(const ServerOptions& options) {
  net::ChannelLimits limits;
  limits.step = options.step;
  limits.idle = 2 * options.limits.heartbeat_limit;  // the service reports silent workers earlier
  limits.longest_message = kLongestMessage;
  return limits;
}

std::string reason_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr ? ours->message() : error.what();
}

}  // namespace

class Server::State {
 public:
  explicit State(ServerOptions options)
      : options_(std::move(options)),
        service_(std::make_unique<SchedulerService>(options_, Clock::now())),
        acceptor_(context_) {
    listen();
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void stop() { context_.stop(); }

  RunEnd run(const std::vector<int>& signals) {
    asio::signal_set wanted(context_);
    for (const int signal : signals) wanted.add(signal);
    RunEnd end;
    if (!signals.empty()) {
      wanted.async_wait([&](const ErrorCode& error, int signal) {
        if (error) return;
        end.signal = signal;
        context_.stop();
      });
    }
    asio::co_spawn(context_, accept(), asio::detached);
    asio::co_spawn(context_, watch(), asio::detached);
    net::run_periodically(context_, options_.check_of_certificates);
    context_.run();
    service_->refusals().finish();
    if (ending_) end.ending = *ending_;
    return end;
  }

 private:
  void listen();
  net::Awaitable<void> accept();
  net::Awaitable<void> watch();
  net::Awaitable<void> serve(std::shared_ptr<Connection> connection);
  net::Awaitable<void> secure(Connection& connection);
  net::Awaitable<void> refuse_plain(Connection& connection);
  net::Awaitable<void> converse(const std::shared_ptr<Connection>& connection);
  net::Awaitable<void> serve_worker(const std::shared_ptr<Connection>& connection);
  void take(tcp::socket socket);
  void make_room();
  void close_late(Time now);
  void begin_next_job();

  const ServerOptions options_;
  // Declared before the connections, because they use it.
  asio::io_context context_{1};
  std::unique_ptr<SchedulerService> service_;
  tcp::acceptor acceptor_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::optional<Ending> ending_;
};

void Server::State::listen() {
  const auto endpoint = net::look_up(options_.host, options_.port, Clock::now() + options_.step).front();
  ErrorCode error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (!error) return;
  fail(ErrorKind::io, "scheduler",
       "cannot listen on {}:{}: {}. MS_SCHED_HOST must be an address of this machine, and MS_SCHED_PORT a port that "
       "no other process uses",
       options_.host, options_.port, error.message());
}

net::Awaitable<void> Server::State::accept() {
  asio::steady_timer pause(context_);
  for (;;) {
    ErrorCode error;
    tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      make_room();
      take(std::move(socket));
    } else if (error == asio::error::operation_aborted) {
      co_return;
    } else {
      service_->refusals().note("a connection that could not be accepted", error.message(), Clock::now());
      co_await net::sleep(pause, kTick);  // out of descriptors: the pending connection stays in the queue
    }
  }
}

// Closes the oldest connection that has not registered, when there are too many.
void Server::State::make_room() {
  if (connections_.size() < options_.most_connections) return;
  for (const auto& [id, connection] : connections_) {
    if (connection->is_worker || !connection->close_reason.empty()) continue;
    return close(*connection, fmt::format("there are more than {} connections", options_.most_connections));
  }
}

void Server::State::take(tcp::socket socket) {
  const auto connection =
      std::make_shared<Connection>(std::move(socket), channel_limits(options_), next_id_++, Clock::now());
  connections_.emplace(connection->id, connection);
  asio::co_spawn(context_, serve(connection), asio::detached);
}

net::Awaitable<void> Server::State::serve(std::shared_ptr<Connection> connection) {
  std::string reason;
  try {
    co_await secure(*connection);
    co_await converse(connection);
  } catch (const std::exception& error) {
    reason = reason_of(error);
  }
  if (!connection->close_reason.empty()) reason = connection->close_reason;
  if (!connection->is_visitor && !connection->is_worker && !connection->closing && !reason.empty()) {
    service_->refusals().note(connection->channel.peer(), reason, Clock::now());
  }
  connections_.erase(connection->id);
  service_->forget(*connection, reason, Clock::now());
  close(*connection, "it is over");
}

// Answers plain HTTP at a TLS port: with a hint at the mistake for a user of curl, and a log line with the address.
net::Awaitable<void> Server::State::refuse_plain(Connection& connection) {
  co_await connection.channel.read_request();
  co_await connection.channel.respond(400, "text/plain", "this port speaks TLS, with certificates on both sides\n");
  fail(ErrorKind::data, "network", "it does not speak TLS, which this port requires (enable_ssl)");
}

net::Awaitable<void> Server::State::secure(Connection& connection) {
  connection.is_visitor = true;
  const bool begins_tls = co_await connection.channel.peer_begins_tls();
  connection.is_visitor = false;
  if (options_.tls) {
    if (!begins_tls) co_await refuse_plain(connection);
    co_await connection.channel.secure_as_server(*options_.tls);
  } else if (begins_tls) {
    fail(ErrorKind::data, "network", "it speaks TLS, and this port does not (enable_ssl is off here)");
  }
}

net::Awaitable<void> Server::State::converse(const std::shared_ptr<Connection>& connection) {
  for (;;) {
    const net::HttpRequest request = co_await connection->channel.read_request();
    if (request.wants_websocket && request.target == "/v1/worker") co_return co_await serve_worker(connection);
    const bool asks_status = request.target == "/v1/status" && request.method == "GET";
    connection->is_visitor = true;
    if (asks_status) {
      co_await connection->channel.respond(200, "application/json", service_->status(Clock::now()));
    } else {
      co_await connection->channel.respond(404, "text/plain", "a scheduler of Lockstep answers GET /v1/status\n");
    }
    if (!request.keep_alive) co_return;
  }
}

net::Awaitable<void> Server::State::serve_worker(const std::shared_ptr<Connection>& connection) {
  connection->is_visitor = false;
  co_await connection->channel.accept_websocket();
  asio::co_spawn(context_, send_outbox(connection), asio::detached);
  service_->greet(connection);
  for (;;) {
    const std::string message = co_await connection->channel.receive();
    service_->receive(*connection, message, Clock::now());
  }
}

// Closes connections that have not registered in time.
void Server::State::close_late(Time now) {
  for (const auto& [id, connection] : connections_) {
    if (connection->is_worker || connection->asking || now - connection->since < 3 * options_.step) continue;
    close(*connection, "it sent no request in time");
  }
}

// The port stays open, because workers of the next job may already be connecting. Connections of the previous job are
// closing.
void Server::State::begin_next_job() {
  if (options_.on_ended) options_.on_ended(*ending_);
  ending_.reset();
  service_->refusals().finish();
  service_ = std::make_unique<SchedulerService>(options_, Clock::now());
}

net::Awaitable<void> Server::State::watch() {
  asio::steady_timer timer(context_);
  while (!ending_) {
    co_await net::sleep(timer, kTick);
    const auto now = Clock::now();
    close_late(now);
    service_->refusals().tick(now);
    ending_ = service_->tick(now);
    if (ending_ && options_.programs_follow) begin_next_job();
  }
  acceptor_.close();
  const auto deadline = Clock::now() + kFarewell;
  while (!connections_.empty() && Clock::now() < deadline) co_await net::sleep(timer, kTick);
  context_.stop();
}

Server::Server(ServerOptions options) : state_(std::make_shared<State>(std::move(options))) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return state_->port(); }
RunEnd Server::run(const std::vector<int>& signals) { return state_->run(signals); }
void Server::stop() { state_->stop(); }

}  // namespace lockstep::membership
