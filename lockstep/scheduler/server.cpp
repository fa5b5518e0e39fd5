#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/net/name_lookup.h>
#include <lockstep/net/sleep.h>
#include <lockstep/scheduler/desk.h>
#include <lockstep/scheduler/server.h>
#include <lockstep/scheduler/session.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>

namespace lockstep::scheduler {
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
  limits.idle = 2 * options.patience.silence;  // the desk says earlier who is silent
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
      : options_(std::move(options)), desk_(options_, Clock::now()), acceptor_(context_) {
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
    keep_doing(context_, options_.check_of_certificates);
    context_.run();
    desk_.refusals().finish();
    if (ending_) end.ending = *ending_;
    return end;
  }

 private:
  void listen();
  net::Awaitable<void> accept();
  net::Awaitable<void> watch();
  net::Awaitable<void> serve(std::shared_ptr<Session> session);
  net::Awaitable<void> secure(Session& session);
  net::Awaitable<void> refuse_plain(Session& session);
  net::Awaitable<void> converse(const std::shared_ptr<Session>& session);
  net::Awaitable<void> hear_worker(const std::shared_ptr<Session>& session);
  void take(tcp::socket socket);
  void make_room();
  void close_late(Time now);

  const ServerOptions options_;
  // Before the sessions, which use it.
  asio::io_context context_{1};
  Desk desk_;
  tcp::acceptor acceptor_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
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
       "nobody else uses",
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
      desk_.refusals().note("a connection that could not be accepted", error.message(), Clock::now());
      co_await net::sleep(pause, kTick);  // out of descriptors: it is still there
    }
  }
}

// Of those that never said who they are, the oldest goes.
void Server::State::make_room() {
  if (sessions_.size() < options_.most_connections) return;
  for (const auto& [id, session] : sessions_) {
    if (session->is_worker || !session->close_reason.empty()) continue;
    return close(*session, fmt::format("there are more than {} connections", options_.most_connections));
  }
}

void Server::State::take(tcp::socket socket) {
  const auto session = std::make_shared<Session>(std::move(socket), channel_limits(options_), next_id_++, Clock::now());
  sessions_.emplace(session->id, session);
  asio::co_spawn(context_, serve(session), asio::detached);
}

net::Awaitable<void> Server::State::serve(std::shared_ptr<Session> session) {
  std::string reason;
  try {
    co_await secure(*session);
    co_await converse(session);
  } catch (const std::exception& error) {
    reason = reason_of(error);
  }
  if (!session->close_reason.empty()) reason = session->close_reason;
  if (!session->is_visitor && !session->is_worker && !session->closing && !reason.empty()) {
    desk_.refusals().note(session->channel.peer(), reason, Clock::now());
  }
  sessions_.erase(session->id);
  desk_.forget(*session, reason, Clock::now());
  close(*session, "it is over");
}

// Tells people with curl what they did, and the log who did it.
net::Awaitable<void> Server::State::refuse_plain(Session& session) {
  co_await session.channel.read_request();
  co_await session.channel.respond(400, "text/plain", "this port speaks TLS, with certificates on both sides\n");
  fail(ErrorKind::data, "network", "it does not speak TLS, which this port wants (enable_ssl)");
}

net::Awaitable<void> Server::State::secure(Session& session) {
  session.is_visitor = true;
  const bool begins_tls = co_await session.channel.peer_begins_tls();
  session.is_visitor = false;
  if (options_.tls) {
    if (!begins_tls) co_await refuse_plain(session);
    co_await session.channel.secure_as_server(*options_.tls);
  } else if (begins_tls) {
    fail(ErrorKind::data, "network", "it speaks TLS, and this port does not (enable_ssl is off here)");
  }
}

net::Awaitable<void> Server::State::converse(const std::shared_ptr<Session>& session) {
  for (;;) {
    const net::HttpRequest request = co_await session->channel.read_request();
    if (request.wants_websocket && request.target == "/v1/worker") co_return co_await hear_worker(session);
    const bool asks_status = request.target == "/v1/status" && request.method == "GET";
    session->is_visitor = true;
    if (asks_status) {
      co_await session->channel.respond(200, "application/json", desk_.status(Clock::now()));
    } else {
      co_await session->channel.respond(404, "text/plain", "a scheduler of Lockstep answers GET /v1/status\n");
    }
    if (!request.keep_alive) co_return;
  }
}

net::Awaitable<void> Server::State::hear_worker(const std::shared_ptr<Session>& session) {
  session->is_visitor = false;
  co_await session->channel.accept_websocket();
  asio::co_spawn(context_, send_outbox(session), asio::detached);
  desk_.greet(session);
  for (;;) {
    const std::string message = co_await session->channel.receive();
    desk_.hear(*session, message, Clock::now());
  }
}

// A connection that does not get on with it.
void Server::State::close_late(Time now) {
  for (const auto& [id, session] : sessions_) {
    if (session->is_worker || session->asking || now - session->since < 3 * options_.step) continue;
    close(*session, "it did not say in time what it wants");
  }
}

net::Awaitable<void> Server::State::watch() {
  asio::steady_timer timer(context_);
  while (!ending_) {
    co_await net::sleep(timer, kTick);
    const auto now = Clock::now();
    close_late(now);
    desk_.refusals().tick(now);
    ending_ = desk_.tick(now);
  }
  acceptor_.close();
  const auto deadline = Clock::now() + kFarewell;
  while (!sessions_.empty() && Clock::now() < deadline) co_await net::sleep(timer, kTick);
  context_.stop();
}

Server::Server(ServerOptions options) : state_(std::make_shared<State>(std::move(options))) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return state_->port(); }
RunEnd Server::run(const std::vector<int>& signals) { return state_->run(signals); }
void Server::stop() { state_->stop(); }

}  // namespace lockstep::scheduler
