// A stranger who sends one byte to every port that the processes of a job listen on, and says no more.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/unique_fd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace lockstep::test {

/// Looks for ports as long as this object exists, and keeps its connections open.
class StrangerAtPorts {
 public:
  enum class Visit { speak, look };

  /// `only`: the name of the processes that are visited; empty: all of the job. One that only looks sends nothing.
  explicit StrangerAtPorts(std::string only = "", Visit visit = Visit::speak);
  StrangerAtPorts(const StrangerAtPorts&) = delete;
  StrangerAtPorts& operator=(const StrangerAtPorts&) = delete;
  ~StrangerAtPorts();

  /// The variables that mark the processes of the job, for whoever starts it.
  const Environment& mark() const { return mark_; }

  /// Names of the processes (/proc/PID/comm) that listened, with their number of ports.
  std::map<std::string, int> visited() const;

  /// Names of those that listened at another address than loopback.
  std::set<std::string> open_to_others() const;

 private:
  void look(const std::stop_token& stop);
  void visit_ports();

  const std::string only_;
  const Visit visit_;
  Environment mark_;
  mutable std::mutex mutex_;
  std::map<std::string, UniqueFd> connections_;  ///< by the socket that listens, as /proc names it
  std::map<std::string, int> visited_;
  std::set<std::string> open_to_others_;
  std::map<std::string, int> looks_;  ///< at sockets of nobody in the job
  std::jthread thread_;
};

}  // namespace lockstep::test
