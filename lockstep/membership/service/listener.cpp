// The listener's coroutines: one accepts connections, one watches the time, and each connection has a reader and a
// writer.
#include <lockstep/base/error.h>
#include <lockstep/membership/service/listener.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/name_lookup.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <map>
#include <utility>

namespace lockstep::membership {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr int kBacklog = 4096;

}  // namespace

/// One connection, and the messages that are to be sent over it.
struct Connection {
  Connection(tcp::socket socket, const net::ChannelLimits& limits, std::uint64_t number)
      : id(number), wake(socket.get_executor()), channel(std::move(socket), limits) {}

  std::uint64_t id;
  Clock::time_point since = Clock::now();
  bool is_visitor = false;   ///< sent nothing, or requested the status: its end is not logged
  bool closing = false;      ///< to be closed once the outbox is empty
  std::string close_reason;  ///< why this side closed it, if it did
  std::deque<std::string> outbox;
  std::size_t unread = 0;   ///< bytes of the outbox, and of the message that is being sent
  asio::steady_timer wake;  ///< wakes the coroutine that sends the outbox
  net::Channel channel;
};

namespace {

net::Awaitable<void> sleep_until_woken(Connection& connection) {
  ErrorCode woken;
  connection.wake.expires_at(Clock::time_point::max());
  co_await connection.wake.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

/// Sends the messages of the outbox until the connection is closed.
net::Awaitable<void> send_outbox(std::shared_ptr<Connection> connection) {
  try {
    while (connection->close_reason.empty()) {
      if (!connection->outbox.empty()) {
        const std::string message = std::move(connection->outbox.front());
        connection->outbox.pop_front();
        co_await connection->channel.send(message);
        connection->unread -= message.size();
      } else if (connection->closing) {
        break;
      } else {
        co_await sleep_until_woken(*connection);
      }
    }
  } catch (const std::exception&) {
    // The reading coroutine gets the same error and reports it.
  }
  connection->channel.close();
}

void close_now(Connection& connection, std::string reason) {
  if (connection.close_reason.empty()) connection.close_reason = std::move(reason);
  connection.wake.cancel();
  connection.channel.close();
}

std::string reason_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr ? ours->message() : error.what();
}

}  // namespace

class Listener::State {
 public:
  State(ListenerOptions options, ListenerCalls calls) : options_(std::move(options)), calls_(std::move(calls)) {
    limits_.step = options_.step;
    limits_.idle = options_.idle;
    limits_.longest_message = options_.longest_message;
    limits_.keep_alive = options_.keep_alive;
    if (options_.sockets.empty()) listen();
    for (auto& socket : options_.sockets) adopt(std::move(socket));
  }

  std::uint16_t port() const { return acceptors_.front().local_endpoint().port(); }
  void stop() { context_.stop(); }
  void post(std::function<void()> call) { asio::post(context_, std::move(call)); }
  void finish() { finishing_ = true; }
  void close_all() {
    for (auto& acceptor : acceptors_) acceptor.close();
    for (auto& [id, connection] : connections_) connection->channel.close();
  }
  RefusalLog& refusals() { return refusals_; }
  int run(const std::vector<int>& signals);
  void send(std::uint64_t id, std::string text);
  void close(std::uint64_t id, const std::string& reason);

 private:
  void listen();
  void adopt(UniqueFd socket);
  net::Awaitable<void> accept(tcp::acceptor& acceptor);
  net::Awaitable<void> watch();
  net::Awaitable<void> serve(std::shared_ptr<Connection> connection);
  net::Awaitable<void> secure(Connection& connection);
  net::Awaitable<void> refuse_plain(Connection& connection);
  net::Awaitable<void> converse(const std::shared_ptr<Connection>& connection);
  bool accepts(const net::HttpRequest& request) const;
  net::HttpAnswer answer_to(const net::HttpRequest& request) const;
  net::Awaitable<void> serve_member(const std::shared_ptr<Connection>& connection);
  void take(tcp::socket socket);
  void make_room();
  void close_late();

  ListenerOptions options_;
  const ListenerCalls calls_;
  net::ChannelLimits limits_;
  // Declared before the connections, because they use it.
  asio::io_context context_{1};
  RefusalLog refusals_;
  std::deque<tcp::acceptor> acceptors_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  bool finishing_ = false;
};

int Listener::State::run(const std::vector<int>& signals) {
  asio::signal_set wanted(context_);
  for (const int signal : signals) wanted.add(signal);
  int arrived = 0;
  if (!signals.empty()) {
    wanted.async_wait([&](const ErrorCode& error, int signal) {
      if (error) return;
      arrived = signal;
      context_.stop();
    });
  }
  for (auto& acceptor : acceptors_) asio::co_spawn(context_, accept(acceptor), net::rethrow);
  asio::co_spawn(context_, watch(), net::rethrow);
  net::run_periodically(context_, options_.check_of_certificates);
  context_.run();
  refusals_.finish();
  return arrived;
}

void Listener::State::listen() {
  const auto endpoint = net::look_up(options_.host, options_.port, Clock::now() + options_.step).front();
  auto& acceptor = acceptors_.emplace_back(context_);
  ErrorCode error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (!error) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!error) return;
  fail(ErrorKind::io, "scheduler", "cannot listen on {}:{}: {}. {}", options_.host, options_.port, error.message(),
       options_.cannot_listen);
}

void Listener::State::adopt(UniqueFd socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  acceptors_.emplace_back(context_).assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.release());
}

net::Awaitable<void> Listener::State::accept(tcp::acceptor& acceptor) {
  asio::steady_timer pause(context_);
  for (;;) {
    ErrorCode error;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
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
void Listener::State::make_room() {
  if (connections_.size() < options_.most_connections) return;
  for (const auto& [id, connection] : connections_) {
    if (calls_.is_admitted(id) || connection->closing || !connection->close_reason.empty()) continue;
    return close_now(*connection, fmt::format("there are more than {} connections", options_.most_connections));
  }
}

void Listener::State::take(tcp::socket socket) {
  const auto why = options_.refuse ? options_.refuse(socket.native_handle()) : std::string();
  if (!why.empty()) {
    ErrorCode gone;
    return refusals_.note(fmt::format("{}", socket.remote_endpoint(gone).address().to_string()), why, Clock::now());
  }
  const auto connection = std::make_shared<Connection>(std::move(socket), limits_, next_id_++);
  connections_.emplace(connection->id, connection);
  asio::co_spawn(context_, serve(connection), asio::detached);
}

net::Awaitable<void> Listener::State::serve(std::shared_ptr<Connection> connection) {
  std::string reason;
  try {
    co_await secure(*connection);
    co_await converse(connection);
  } catch (const std::exception& error) {
    reason = reason_of(error);
  }
  if (!connection->close_reason.empty()) reason = connection->close_reason;
  const bool is_member = calls_.is_admitted(connection->id);
  if (!connection->is_visitor && !is_member && !connection->closing && !reason.empty()) {
    refusals_.note(connection->channel.peer(), reason, Clock::now());
  }
  connections_.erase(connection->id);
  calls_.closed(connection->id, reason, !connection->close_reason.empty());
  close_now(*connection, "it is over");
}

// Answers plain HTTP at a TLS port: with a hint at the mistake for a user of curl, and a log line with the address.
net::Awaitable<void> Listener::State::refuse_plain(Connection& connection) {
  co_await connection.channel.read_request();
  co_await connection.channel.respond(400, "text/plain", "this port uses TLS, with certificates on both sides\n");
  fail(ErrorKind::data, "network", "it does not use TLS, which this port requires ({})", options_.tls_setting);
}

net::Awaitable<void> Listener::State::secure(Connection& connection) {
  connection.is_visitor = true;
  const bool begins_tls = co_await connection.channel.peer_begins_tls();
  connection.is_visitor = false;
  if (options_.tls) {
    if (!begins_tls) co_await refuse_plain(connection);
    co_await connection.channel.secure_as_server(*options_.tls);
  } else if (begins_tls) {
    fail(ErrorKind::data, "network", "it uses TLS, and this port does not ({} is off here)", options_.tls_setting);
  }
}

net::Awaitable<void> Listener::State::converse(const std::shared_ptr<Connection>& connection) {
  for (;;) {
    const net::HttpRequest request = co_await connection->channel.read_request();
    if (accepts(request)) co_return co_await serve_member(connection);
    connection->is_visitor = true;
    auto answer = answer_to(request);
    const bool goes_on = request.keep_alive && !answer.close;
    co_await connection->channel.respond(std::move(answer));
    if (!goes_on) co_return;
  }
}

bool Listener::State::accepts(const net::HttpRequest& request) const {
  if (!request.wants_websocket) return false;
  return calls_.accepts ? calls_.accepts(request.target) : request.target == options_.target;
}

net::HttpAnswer Listener::State::answer_to(const net::HttpRequest& request) const {
  if (calls_.answer) return calls_.answer(request);
  net::HttpAnswer answer;
  if (request.target == "/v1/status" && request.method == "GET") {
    answer.content_type = "application/json";
    answer.body = calls_.status();
  } else {
    answer.status = 404;
    answer.content_type = "text/plain";
    answer.body = options_.name + " answers GET /v1/status\n";
  }
  return answer;
}

net::Awaitable<void> Listener::State::serve_member(const std::shared_ptr<Connection>& connection) {
  connection->is_visitor = false;
  co_await connection->channel.accept_websocket();
  asio::co_spawn(context_, send_outbox(connection), asio::detached);
  calls_.opened(connection->id, connection->channel.peer());
  for (;;) {
    const std::string message = co_await connection->channel.receive();
    if (!connection->closing) calls_.received(connection->id, message);
  }
}

// Closes connections that have not registered in time.
void Listener::State::close_late() {
  const auto now = Clock::now();
  for (const auto& [id, connection] : connections_) {
    if (calls_.has_registered(id) || connection->closing || now - connection->since < 3 * options_.step) continue;
    close_now(*connection, "it sent no request in time");
  }
}

void Listener::State::send(std::uint64_t id, std::string text) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  auto& connection = *found->second;
  const bool too_many =
      connection.outbox.size() >= options_.most_unread ||
      (connection.unread > 0 &&
       text.size() > options_.most_unread_bytes - std::min(connection.unread, options_.most_unread_bytes));
  if (too_many) return close_now(connection, "it does not read its messages");
  connection.unread += text.size();
  connection.outbox.push_back(std::move(text));
  connection.wake.cancel();
}

void Listener::State::close(std::uint64_t id, const std::string& reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (!reason.empty()) return close_now(*found->second, reason);
  found->second->closing = true;
  found->second->wake.cancel();
}

net::Awaitable<void> Listener::State::watch() {
  asio::steady_timer timer(context_);
  while (!finishing_) {
    co_await net::sleep(timer, kTick);
    close_late();
    refusals_.tick(Clock::now());
    calls_.tick();
  }
  for (auto& acceptor : acceptors_) acceptor.close();
  const auto deadline = Clock::now() + kFarewell;
  while (!connections_.empty() && Clock::now() < deadline) co_await net::sleep(timer, kTick);
  context_.stop();
}

Listener::Listener(ListenerOptions options, ListenerCalls calls)
    : state_(std::make_shared<State>(std::move(options), std::move(calls))) {}
Listener::~Listener() = default;
std::uint16_t Listener::port() const { return state_->port(); }
int Listener::run(const std::vector<int>& signals) { return state_->run(signals); }
void Listener::stop() { state_->stop(); }
void Listener::post(std::function<void()> call) { state_->post(std::move(call)); }
void Listener::finish() { state_->finish(); }
void Listener::close_all() { state_->close_all(); }
void Listener::send(std::uint64_t connection, std::string text) { state_->send(connection, std::move(text)); }
void Listener::close(std::uint64_t connection, const std::string& reason) { state_->close(connection, reason); }
RefusalLog& Listener::refusals() { return state_->refusals(); }

}  // namespace lockstep::membership
