// The scheduler's listener on one thread of coroutines: TLS, WebSocket sessions of workers, GET /v1/status.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/refusal_log.h>
#include <lockstep/base/secret.h>
#include <lockstep/membership/service/connection.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/membership/service/status.h>
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
constexpr auto kSave = std::chrono::seconds(2);
constexpr int kBacklog = 4096;

net::ChannelLimits channel_limits(const ServerOptions& options) {
  net::ChannelLimits limits;
  limits.step = options.step;
  limits.idle = 2 * options.limits.heartbeat_limit;  // the service reports silent workers earlier
  limits.longest_message = kLongestMessage;
  return limits;
}

// Continues with the saved job, if there is one.
ServiceState begin(const ServerOptions& options, Time now) {
  const auto saved = options.state ? options.state->load() : std::nullopt;
  try {
    auto state = begin_service(options, saved, now, random_token);
    if (!state.membership.members.empty()) {
      log_info("going on with job {} from {}: {} workers, generation {}", state.membership.job, options.state->name,
               state.membership.members.size(), state.membership.generation);
    }
    return state;
  } catch (const Error& error) {
    fail(ErrorKind::data, "scheduler",
         "the state in '{}' cannot be used: {}; remove it, or set MS_RECOVERY_PATH to another place",
         options.state->name, error.message());
  }
}

std::string reason_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr ? ours->message() : error.what();
}

}  // namespace

class Server::State {
 public:
  explicit State(ServerOptions options)
      : options_(std::move(options)), service_(begin(options_, Clock::now())), acceptor_(context_) {
    if (options_.state) writer_.emplace(*options_.state);
    carry_out(Save{});
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
    refusals_.finish();
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
  void step(const ServiceInput& input);
  void carry_out(const Send& send);
  void carry_out(const Close& close);
  void carry_out(const Save& save);
  void carry_out(const LogLine& line) { write_log(line.level, line.text); }
  void carry_out(const Refusal& refusal) { refusals_.note(refusal.who, refusal.reason, Clock::now()); }
  void carry_out(const ProcessLost& lost) {
    if (options_.on_lost) options_.on_lost(lost.rank, lost.pid);
  }
  void carry_out(const ProcessBack& back) {
    if (options_.on_back) options_.on_back(back.rank, back.pid);
  }
  void carry_out(const RanksLost& lost) {
    if (options_.on_lost_ranks) options_.on_lost_ranks(lost.ranks);
  }
  void carry_out(const JobEnded& job);
  std::string status() const;

  const ServerOptions options_;
  // Declared before the connections, because they use it.
  asio::io_context context_{1};
  ServiceState service_;
  std::optional<StateWriter> writer_;
  RefusalLog refusals_;
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
      refusals_.note("a connection that could not be accepted", error.message(), Clock::now());
      co_await net::sleep(pause, kTick);  // out of descriptors: the pending connection stays in the queue
    }
  }
}

// Closes the oldest connection that has not registered, when there are too many.
void Server::State::make_room() {
  if (connections_.size() < options_.most_connections) return;
  for (const auto& [id, connection] : connections_) {
    if (is_admitted(service_, id) || connection->closing || !connection->close_reason.empty()) continue;
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
  const bool is_worker = is_admitted(service_, connection->id);
  if (!connection->is_visitor && !is_worker && !connection->closing && !reason.empty()) {
    refusals_.note(connection->channel.peer(), reason, Clock::now());
  }
  connections_.erase(connection->id);
  step(Closed{connection->id, reason, !connection->close_reason.empty()});
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
      co_await connection->channel.respond(200, "application/json", status());
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
  step(Opened{connection->id, connection->channel.peer()});
  for (;;) {
    const std::string message = co_await connection->channel.receive();
    if (!connection->closing) step(Received{connection->id, parse_from_worker(message)});
  }
}

// Closes connections that have not registered in time.
void Server::State::close_late(Time now) {
  for (const auto& [id, connection] : connections_) {
    // With the previous job, its connections are closing.
    if (has_registered(service_, id) || connection->closing || now - connection->since < 3 * options_.step) continue;
    close(*connection, "it sent no request in time");
  }
}

void Server::State::step(const ServiceInput& input) {
  for (const auto& output : membership::step(service_, input, Clock::now(), random_token)) {
    std::visit([this](const auto& each) { carry_out(each); }, output);
  }
}

void Server::State::carry_out(const Send& send) {
  if (const auto found = connections_.find(send.connection); found != connections_.end()) {
    post(*found->second, send.message);
  }
}

void Server::State::carry_out(const Close& close) {
  const auto found = connections_.find(close.connection);
  if (found == connections_.end()) return;
  if (close.reason.empty()) return close_politely(*found->second);
  membership::close(*found->second, close.reason);
}

void Server::State::carry_out(const Save& save) {
  if (!writer_) return;
  writer_->put(print_state(service_.membership));
  if (save.first) writer_->wait_for(kSave);
}

// Where programs follow each other, the port stays open, because workers of the next job may already be connecting.
// Connections of the previous job are closing.
void Server::State::carry_out(const JobEnded& job) {
  ending_ = job.ending;
  if (!options_.programs_follow) return;
  if (options_.on_ended) options_.on_ended(*ending_);
  ending_.reset();
  refusals_.finish();
  service_ = begin(options_, Clock::now());
  carry_out(Save{});
}

std::string Server::State::status() const {
  return status_json(
      service_.membership,
      {options_.version, options_.tls != nullptr, options_.state.has_value(), service_.started, service_.decisions},
      Clock::now());
}

net::Awaitable<void> Server::State::watch() {
  asio::steady_timer timer(context_);
  while (!ending_) {
    co_await net::sleep(timer, kTick);
    const auto now = Clock::now();
    close_late(now);
    refusals_.tick(now);
    step(Tick{});
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
