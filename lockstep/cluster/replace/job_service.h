// The job service of a launcher: the ranks of a program that can continue from memory register with it, so that lost
// ones can be replaced in place.
#pragma once

#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/replace/rank_losses.h>

#include <memory>
#include <mutex>
#include <string>

namespace lockstep::cluster {

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
