// The fork server: a process that loads the program's libraries once and then forks the ranks, which continue from
// there. Saves the long time of loading and initialising libtorch's 300 libraries.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/processes/stray_processes.h>
#include <lockstep/cluster/rank_start.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// The program's output while it was loaded, which each rank would have written.
struct LoadingOutput {
  std::string out;
  std::string err;
};

/// Forked ranks that wait before the program's main. They end when this is destroyed before release().
struct ForkedRanks {
  std::vector<Child> children{};
  LoadingOutput said{};
  UniqueFd gate{};

  /// Lets the ranks continue. SIGPIPE must be ignored. Error(io) when they cannot be reached.
  void release();
};

/// The servers that a launcher hosts for its ranks.
struct Hosted {
  std::uint16_t store_port = 0;  ///< the port of c10d's store, where ranks may need it, else that of Lockstep's own
  OwnStoreAddress own_store{};   ///< the store for ranks of Lockstep
  std::optional<ServiceAddress> service{};
};

/// The handle of the process that forks, a child of this one. Only programs linked with liblockstep can be forked
/// (obstacle_to_forking). Ranks are children of this process and not of the server, so that they can be held, waited
/// for and ended like other children. All processes end when this handle or this process does, except ranks that were
/// released. Not thread-safe.
class ForkServer {
 public:
  /// Starts the server with the common part of the ranks' environments, and returns while it loads the program.
  /// Error(io) when the program cannot be executed.
  explicit ForkServer(const LaunchOptions& options);
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// Waits until the program is loaded, or `stop_fd` is readable. Returns why it cannot fork ranks; nullopt when it
  /// can.
  std::optional<std::string> await_obstacle(int stop_fd = -1);

  /// Forks one process for each of `ranks`, which were made by prepare_ranks(). On failure, Error(io): no rank is left,
  /// and the server cannot be used any more.
  ForkedRanks fork(const std::vector<ChildOptions>& ranks);

  /// The server's process. A job whose ranks run continues without it.
  std::vector<Helper> helpers() const;

 private:
  std::optional<std::string> hear_hello(int stop_fd);
  std::vector<std::string> answer_to(const char* request, const char* expected);
  Child fork_one(const ChildOptions& rank, int gate);

  const Subreaper subreaper_;
  Environment environment_;
  UniqueFd socket_;
  std::optional<Child> process_;
  LoadingOutput said_;
  std::optional<std::optional<std::string>> obstacle_;  ///< empty until it is known
};

/// An optional fork server: used where it is possible, else the launcher starts the ranks one by one.
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
  /// options.err unless the user chose it. Can be called for one job after another.
  std::optional<ForkedRanks> fork(const LaunchOptions& options, const Launch& job, int stop_fd = -1);
  /// Does the same for ranks that are prepared.
  std::optional<ForkedRanks> fork(const LaunchOptions& options, const std::vector<ChildOptions>& ranks,
                                  int stop_fd = -1);

  /// Its processes, where there are any.
  std::vector<Helper> helpers() const { return server_ ? server_->helpers() : std::vector<Helper>(); }

 private:
  std::optional<ForkServer> server_;
  std::optional<std::string> obstacle_;
};

}  // namespace lockstep::cluster
