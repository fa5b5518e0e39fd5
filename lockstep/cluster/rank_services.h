// The services of a launcher for its ranks, without libtorch: Lockstep's own store for their rendezvous; and the job
// service, with which the ranks of a program that can continue from memory register, so that lost ones can be replaced
// in place.
#pragma once

#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/cluster/rank_start.h>
#include <lockstep/cluster/replace/rank_losses.h>

#include <cstdint>
#include <memory>
#include <mutex>
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

/// The newest losses, written by the thread of the job service and read by the launcher's.
class SharedLosses {
 public:
  /// Changes the losses, and raises `fd`.
  template <typename Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change(losses_);
    changed_.raise();
  }
  /// The losses; lowers `fd`.
  RankLosses take() {
    changed_.lower();
    const std::lock_guard lock(mutex_);
    return losses_;
  }
  /// Readable after a change.
  int fd() const noexcept { return changed_.fd(); }

 private:
  std::mutex mutex_;
  RankLosses losses_;
  Flag changed_;
};

/// A scheduler (membership/service/server.h) for `ranks` ranks with their numbers as node ids, on a thread of its own.
/// It serves one job after another, so that several programs may run in sequence under one launcher.
class JobService {
 public:
  /// Listens at `host`, on a port that the kernel chooses, and keeps `losses` up to date. Where other hosts reach it,
  /// it encrypts if LOCKSTEP_ENCRYPT is set for that, and then admits only ranks with a certificate. Error(io) when it
  /// cannot listen, Error(config) naming a certificate that cannot be used.
  JobService(const std::string& host, int ranks, std::shared_ptr<SharedLosses> losses);
  JobService(const JobService&) = delete;
  JobService& operator=(const JobService&) = delete;
  ~JobService();

  const ServiceAddress& address() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cluster
