#include <lockstep/base/deadline_thread.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/secret.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/store_host.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/net/peer_tls.h>
#include <lockstep/store/server.h>

#include <torch/cuda.h>

namespace lockstep::cluster {
namespace {

constexpr auto kLoopback = "127.0.0.1";

[[noreturn]] void fail_to_host(const std::exception& error) {
  fail(ErrorKind::io, "launch", "cannot host the store where the ranks meet: {}", error.what());
}

}  // namespace

struct StoreHost::State {
  detail::StorePtr store;
  std::uint16_t port = 0;
};

StoreHost::StoreHost() : state_(std::make_unique<State>()) {
  try {
    state_->store = detail::make_tcp_store(kLoopback, 0, true, std::chrono::seconds(60));
    state_->port = dynamic_cast<const c10d::TCPStore&>(*state_->store).getPort();
  } catch (const std::exception& error) {
    fail_to_host(error);
  }
}

// c10d's server, when a stranger began a message, waits for the rest of it and cannot be ended.
StoreHost::~StoreHost() {
  DeadlineThread thread;
  thread.within(std::chrono::seconds(2), [state = std::shared_ptr<State>(std::move(state_))] {
    state->store.reset();
    return true;
  });
}

std::uint16_t StoreHost::port() const { return state_->port; }

OwnStoreHost::OwnStoreHost(const std::string& host, std::vector<std::string> addresses) : address_{"", random_token()} {
  try {
    store::ServerOptions options;
    options.addresses = std::move(addresses);
    options.secret = address_.secret;
    options.tls = net::find_peer_tls(current_environment());
    server_ = std::make_unique<store::Server>(std::move(options));
  } catch (const std::exception& error) {
    fail_to_host(error);
  }
  address_.place = host_and_port(host, server_->port());
}

OwnStoreHost::~OwnStoreHost() = default;

int usable_gpus() { return static_cast<int>(torch::cuda::device_count()); }

}  // namespace lockstep::cluster
