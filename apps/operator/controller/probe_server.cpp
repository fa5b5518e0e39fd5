// A small HTTP server on a separate thread, for the kubelet's probes and Prometheus.
#include <apps/operator/controller/probe_server.h>
#include <lockstep/base/error.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/name_lookup.h>

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

}  // namespace lockstep::kube
