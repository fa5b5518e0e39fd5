#include <lockstep/base/log.h>
#include <lockstep/store/listening.h>
#include <lockstep/store/server.h>
#include <lockstep/store/server_loop.h>

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <exception>
#include <thread>
#include <utility>

namespace lockstep::store {
namespace {

/// Blocks all signals, so that the server's thread does not handle signals of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

class Server::Running {
 public:
  Running(const ServerOptions& options, std::vector<UniqueFd> listeners) : loop_(options, std::move(listeners)) {
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
    } catch (const std::exception& error) {  // out of memory or descriptors; clients see that their connections end
      log_error("the store where the ranks meet ends: {}", error.what());
    }
    loop_.close();
  }

  ServerLoop loop_;
  std::thread thread_;
};

Server::Server(ServerOptions options) {
  auto listening = listen_at(options.addresses, options.port);
  port_ = listening.port;
  running_ = std::make_unique<Running>(options, std::move(listening.sockets));
}

Server::~Server() = default;

}  // namespace lockstep::store
