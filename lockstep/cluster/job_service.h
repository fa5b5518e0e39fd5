// The job service of a launcher: the ranks of a program that can go on from memory register with it, so that lost ones
// can be replaced in place.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/service_events.h>

#include <memory>
#include <string>

namespace lockstep::cluster {

/// A scheduler (scheduler/server.h) for `ranks` ranks with their numbers as node ids, on a thread of its own. One job
/// after another takes place in it, so that several programs may follow each other under one launcher.
class JobService {
 public:
  /// Listens at `host`, on a port that the kernel chooses, and writes what happens to `events`, one line each, for
  /// ServiceEvents. Error(io) when it cannot listen.
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
