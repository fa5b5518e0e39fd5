// Counters and gauges of the operator, printed in Prometheus' text format; and a small HTTP server on a separate
// thread, for Prometheus and the kubelet's probes.
#include <apps/operator/controller/metrics.h>
#include <lockstep/base/error.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/name_lookup.h>

#include <fmt/format.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <thread>

namespace lockstep::kube {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

}  // namespace

struct ProbeServer::State {
  std::function<ProbeAnswer(const std::string&)> answer;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  std::thread thread{};

  net::Awaitable<void> serve(tcp::socket socket) {
    try {
      net::Channel channel(std::move(socket), net::ChannelLimits());
      for (bool more = true; more;) {
        const auto request = co_await channel.read_request();
        const ProbeAnswer said = request.method == "GET" ? answer(request.target) : ProbeAnswer{405, "only GET\n"};
        co_await channel.respond(said.status, "text/plain; version=0.0.4; charset=utf-8", said.text);
        more = request.keep_alive;
      }
    } catch (const std::exception&) {
      // The peer has closed the connection, or does not use HTTP.
    }
  }

  net::Awaitable<void> accept() {
    for (;;) {
      ErrorCode error;
      tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (!error) asio::co_spawn(context, serve(std::move(socket)), asio::detached);
    }
  }
};

ProbeServer::ProbeServer(const std::string& host, std::uint16_t port,
                         std::function<ProbeAnswer(const std::string&)> answer)
    : state_(std::make_unique<State>()) {
  state_->answer = std::move(answer);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const tcp::endpoint endpoint = net::look_up(host, port, deadline).front();
  ErrorCode error;
  state_->acceptor.open(endpoint.protocol(), error);
  if (!error) state_->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) state_->acceptor.bind(endpoint, error);
  if (!error) state_->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    fail(ErrorKind::io, "operator", "cannot listen on {}:{} for probes and metrics: {}; give another --probe-address",
         host, port, error.message());
  }
  asio::co_spawn(state_->context, state_->accept(), asio::detached);
  state_->thread = std::thread([state = state_.get()] { state->context.run(); });
}

ProbeServer::~ProbeServer() {
  state_->context.stop();
  state_->thread.join();
}

std::uint16_t ProbeServer::port() const { return state_->acceptor.local_endpoint().port(); }

void Metrics::count_request(std::string_view method, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  requests_[{std::string(method), std::string(name(outcome))}] += 1;
}

void Metrics::count_watch(std::string_view plural) {
  const std::lock_guard lock(mutex_);
  watches_[std::string(plural)] += 1;
}

std::string Metrics::text(const std::map<std::string, double>& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string text =
      "# HELP lockstep_operator_requests_total Requests to the API server, by method and outcome.\n"
      "# TYPE lockstep_operator_requests_total counter\n";
  for (const auto& [which, count] : requests_) {
    text += fmt::format("lockstep_operator_requests_total{{method=\"{}\",outcome=\"{}\"}} {}\n", which.first,
                        which.second, count);
  }
  text +=
      "# HELP lockstep_operator_watches_total Watches that were begun, by kind.\n"
      "# TYPE lockstep_operator_watches_total counter\n";
  for (const auto& [kind, count] : watches_) {
    text += fmt::format("lockstep_operator_watches_total{{kind=\"{}\"}} {}\n", kind, count);
  }
  text += fmt::format(
      "# HELP lockstep_operator_decisions_total Decisions about jobs.\n"
      "# TYPE lockstep_operator_decisions_total counter\n"
      "lockstep_operator_decisions_total {}\n"
      "# HELP lockstep_operator_failures_total Decisions that could not be carried out, and are tried again.\n"
      "# TYPE lockstep_operator_failures_total counter\n"
      "lockstep_operator_failures_total {}\n"
      "# HELP lockstep_operator_leader Whether this operator is the one that acts.\n"
      "# TYPE lockstep_operator_leader gauge\n"
      "lockstep_operator_leader {}\n",
      decisions.load(), failures.load(), leads.load() ? 1 : 0);
  std::string last;
  for (const auto& [gauge, value] : gauges) {
    const auto base = gauge.substr(0, gauge.find('{'));
    if (base != last) text += fmt::format("# TYPE {} gauge\n", base);
    last = base;
    text += fmt::format("{} {}\n", gauge, value);
  }
  return text;
}

}  // namespace lockstep::kube
