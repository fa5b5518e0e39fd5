// An optional fork server: used where it is possible, else the launcher starts the ranks one by one.
#pragma once

#include <lockstep/cluster/fork_server/fork_server.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

class ForkAttempt {
 public:
  /// Starts the fork server of the job's program, unless there is an obstacle. Returns while it loads.
  explicit ForkAttempt(const LaunchOptions& options);

  /// False when ranks have to be started one by one, as far as that is known before the program is loaded.
  bool possible() const { return !obstacle_; }

  /// Waits until the program is loaded, or `stop_fd` is readable. False when ranks have to be started one by one.
  bool ready(int stop_fd = -1);

  /// Only after ready() was true.
  ForkServer& server() { return *server_; }

  /// The ranks of `job`, forked and waiting; nullopt when they have to be started one by one, which is reported on
  /// options.err unless it was asked for. Can be called for one job after another.
  std::optional<ForkedRanks> fork(const LaunchOptions& options, const Job& job, int stop_fd = -1);
  /// The same for ranks that are prepared.
  std::optional<ForkedRanks> fork(const LaunchOptions& options, const std::vector<ChildOptions>& ranks,
                                  int stop_fd = -1);

 private:
  std::optional<ForkServer> server_;
  std::optional<std::string> obstacle_;
};

}  // namespace lockstep::cluster
