// Lockstep's own store for the rendezvous of a job's ranks, hosted by the launcher. Without libtorch.
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

/// A store of Lockstep's own, with a secret made for it.
class LockstepStoreHost {
 public:
  /// Listens on these addresses of this host (in digits; empty: on all); ranks get its address as `host`. Error(io)
  /// when it cannot listen.
  explicit LockstepStoreHost(const std::string& host = "127.0.0.1", std::vector<std::string> addresses = {"127.0.0.1"});
  LockstepStoreHost(const LockstepStoreHost&) = delete;
  LockstepStoreHost& operator=(const LockstepStoreHost&) = delete;
  ~LockstepStoreHost();

  const OwnStoreAddress& address() const { return address_; }
  std::uint16_t port() const;

 private:
  OwnStoreAddress address_;
  std::unique_ptr<store::Server> server_;
};

}  // namespace lockstep::cluster
