// The rendezvous stores of a job's ranks, hosted by the launcher.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/rank_environment.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::store {
class Server;
}

namespace lockstep::cluster {

/// A c10d TCPStore server, which programs on any libtorch or in Python can join, in a process of its own: anyone who
/// reaches it can fill its memory or stop its answers. It runs as long as this object exists, and nothing else needs
/// it.
class StoreHost {
 public:
  /// Listens on these addresses of this host if it is one, else on all, and on a port that the kernel chooses. Clients
  /// can connect at once, and are answered when the process has loaded libtorch. Error(io) when it cannot.
  explicit StoreHost(const std::vector<std::string>& addresses = {"127.0.0.1"});

  std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_ = 0;
  std::optional<Child> process_;
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
  std::uint16_t port() const;

 private:
  OwnStoreAddress address_;
  std::unique_ptr<store::Server> server_;
};

/// The number of GPUs that libtorch can use.
int usable_gpus();

}  // namespace lockstep::cluster
