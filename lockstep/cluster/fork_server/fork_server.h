// Ranks that are loaded once: a process of the program stops when its libraries are loaded and initialised, which takes
// long for libtorch's 300, and forks the ranks, which go on from there.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/subreaper.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// What the program wrote while it was loaded: each rank would have.
struct LoadingOutput {
  std::string out;
  std::string err;
};

/// Ranks that wait where their program begins. They end when this is destroyed before release().
struct ForkedRanks {
  std::vector<Child> children{};
  LoadingOutput said{};
  UniqueFd gate{};

  /// They go on. SIGPIPE is to be ignored. Error(io) when they cannot be told.
  void release();
};

/// The process that forks, a child of this one. It needs what only programs with liblockstep have
/// (obstacle_to_forking). Ranks are children of this process and none of the server's, so that they can be held,
/// waited for and ended like any others. All processes end when this handle or this process does, but for ranks that
/// were released. Not thread-safe.
class ForkServer {
 public:
  /// Starts it, with what the ranks' environments have in common, and returns while it loads the program. Error(io)
  /// when the program cannot be executed.
  explicit ForkServer(const LaunchOptions& options);
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// Waits until the program is loaded, or `stop_fd` is readable. Why it cannot fork ranks; nullopt when it can.
  std::optional<std::string> await_obstacle(int stop_fd = -1);

  /// Starts a process that hosts the store where ranks meet, as StoreHost does, for as long as this lives; what it says
  /// goes to `err`. Returns the port. Error(io) when it cannot.
  std::uint16_t host_store(int err);

  /// One process for each. `ranks` are as prepare_ranks() makes them. Error(io) when that fails; none is left then, and
  /// the server is of no use any more.
  ForkedRanks fork(const std::vector<ChildOptions>& ranks);

 private:
  std::optional<std::string> hear_hello(int stop_fd);
  std::string answer_to(const char* request, const char* expected);
  Child fork_one(const ChildOptions& rank, int gate);

  const Subreaper subreaper_;
  Environment environment_;
  UniqueFd socket_;
  std::optional<Child> process_;
  LoadingOutput said_;
  std::optional<std::optional<std::string>> obstacle_;  ///< once it is known
};

}  // namespace lockstep::cluster
