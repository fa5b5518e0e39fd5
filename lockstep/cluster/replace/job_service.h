// The job service of a launcher: the ranks of a program that can go on from memory register with it, so that lost ones
// can be replaced in place.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/rank_environment.h>

#include <memory>
#include <string>
#include <string_view>

namespace lockstep::cluster {

// What is written to the pipe of events, one line for each event.
inline constexpr std::string_view kLost = "lost ";             ///< and the rank and its process number
inline constexpr std::string_view kBack = "back ";             ///< likewise
inline constexpr std::string_view kLostRanks = "lost_ranks ";  ///< and those that are not there at present: "[2,3]"
inline constexpr std::string_view kCompleted = "completed";

/// A scheduler (membership/service/server.h) for `ranks` ranks with their numbers as node ids, on a thread of its own.
/// One job after another takes place in it, so that several programs may follow each other under one launcher.
class JobService {
 public:
  /// Listens at `host`, on a port that the kernel chooses, and writes what happens to `events`, one line each, for
  /// ServiceEvents. Where other hosts reach it, it encrypts if LOCKSTEP_ENCRYPT asks for that, and admits those with a
  /// certificate alone. Error(io) when it cannot listen, Error(config) naming a certificate that cannot be used.
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
