// A fork server where there can be one, for launchers that can do without.
#pragma once

#include <lockstep/cluster/fork_server/fork_server.h>

#include <optional>
#include <string>

namespace lockstep::cluster {

class ForkAttempt {
 public:
  /// Starts the fork server of the job's program, unless there is an obstacle. Returns while it loads.
  explicit ForkAttempt(const LaunchOptions& options);

  /// False when ranks have to be started one by one, as can be told from outside.
  bool possible() const { return !obstacle_; }

  /// Waits until the program is loaded, or `stop_fd` is readable. False when ranks have to be started one by one.
  bool ready(int stop_fd = -1);

  /// Only after ready() was true.
  ForkServer& server() { return *server_; }

  /// The ranks of `job`, ready to go on; nullopt when they have to be started one by one, which is said on options.err
  /// where it is not what was asked for. For one job after another.
  std::optional<ForkedRanks> fork(const LaunchOptions& options, const Job& job, int stop_fd = -1);

 private:
  std::optional<ForkServer> server_;
  std::optional<std::string> obstacle_;
};

}  // namespace lockstep::cluster
