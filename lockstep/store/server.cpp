// The store's listeners and the thread of its event loop; without TLS where all addresses are loopback.
#include <lockstep/store/server.h>

#include <lockstep/base/log.h>
#include <lockstep/base/threads.h>
#include <lockstep/store/server_loop.h>
#include <lockstep/store/sockets.h>
#include <lockstep/world/host_addresses.h>

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

namespace lockstep::store {

class Server::Running {
 public:
  Running(const StoreServerOptions& options, std::vector<UniqueFd> listeners) : loop_(options, std::move(listeners)) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    loop_.stop();
    thread_.join();
  }

 private:
  void run() noexcept {
    ::pthread_setname_np(::pthread_self(), "lockstep-store");
    try {
      loop_.run();
    } catch (const std::exception& error) {
      // Out of memory or descriptors; clients detect the ends of their connections.
      log_error("the rendezvous store of the ranks ends: {}", error.what());
    }
    loop_.close();
  }

  ServerLoop loop_;
  std::thread thread_;
};

Server::Server(StoreServerOptions options) {
  auto listening = listen_at(options.addresses, options.port);
  const auto& addresses = options.addresses;
  if (!addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_loopback_address)) options.tls.reset();
  port_ = listening.port;
  running_ = std::make_unique<Running>(options, std::move(listening.sockets));
}

Server::~Server() = default;

}  // namespace lockstep::store
