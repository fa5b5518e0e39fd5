// The job service of a launcher: the ranks of a program that can continue from memory register with it, so that lost
// ones can be replaced in place.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/rank_environment.h>

#include <memory>
#include <string>
#include <string_view>

namespace lockstep::cluster {

// The events in the pipe, one line each.
inline constexpr std::string_view kLost = "lost ";             ///< then the rank and its pid
inline constexpr std::string_view kBack = "back ";             ///< then the rank and its pid
inline constexpr std::string_view kLostRanks = "lost_ranks ";  ///< then the ranks that are missing at present: "[2,3]"
inline constexpr std::string_view kCompleted = "completed";

/// A scheduler (membership/service/server.h) for `ranks` ranks with their numbers as node ids, on a thread of its own.
/// It serves one job after another, so that several programs may run in sequence under one launcher.
class JobService {
 public:
  /// Listens at `host`, on a port that the kernel chooses, and writes its events to `events`, one line each, for
  /// ServiceEvents. Where other hosts reach it, it encrypts if LOCKSTEP_ENCRYPT is set for that, and then admits only
  /// ranks with a certificate. Error(io) when it cannot listen, Error(config) naming a certificate that cannot be used.
  JobService(const std::string& host, int ranks, UniqueFd events);
  JobService(const JobService&) = delete;
  JobService& operator=(const JobService&) = delete;
  ~JobService();

  const ServiceAddress& address() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cluster
