// The rendezvous stores of a job's ranks, hosted by the launcher.
#pragma once

#include <lockstep/cluster/rank_environment.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::store {
class Server;
}

namespace lockstep::cluster {

/// A c10d TCPStore server, which programs on any libtorch or in Python can join. It runs as long as this object exists.
class StoreHost {
 public:
  /// Listens on a port that the kernel chooses. Error(io) when it cannot.
  StoreHost();
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;
  ~StoreHost();

  std::uint16_t port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A store of Lockstep's own, with a secret made for it.
class OwnStoreHost {
 public:
  /// Listens on these addresses of this host (in digits; empty: on all), and is told to ranks as `host`. Error(io) when
  /// it cannot.
  explicit OwnStoreHost(const std::string& host = "127.0.0.1", std::vector<std::string> addresses = {"127.0.0.1"});
  OwnStoreHost(const OwnStoreHost&) = delete;
  OwnStoreHost& operator=(const OwnStoreHost&) = delete;
  ~OwnStoreHost();

  const OwnStoreAddress& address() const { return address_; }

 private:
  OwnStoreAddress address_;
  std::unique_ptr<store::Server> server_;
};

/// The number of GPUs that libtorch can use.
int usable_gpus();

}  // namespace lockstep::cluster
