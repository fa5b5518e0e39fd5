// `lockstep run` as a function: starts the ranks of a job on this machine and returns when all of them have ended.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/processes/ending.h>
#include <lockstep/cluster/rank_start.h>
#include <lockstep/cluster/report.h>
#include <lockstep/dashboard/server.h>
#include <lockstep/world/world.h>

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// The way in which the processes of the ranks are started.
enum class StartMethod {
  automatic,    ///< the value of LOCKSTEP_START_METHOD, else fork_server
  fork_server,  ///< forks of one process that has loaded the program, where that is possible; else spawn
  spawn,        ///< each rank is started by itself
};

/// The live page of the job, for browsers.
struct LivePageOptions {
  dashboard::PageAddress address{};
  bool can_kill = false;  ///< the page may kill ranks
};

struct LaunchOptions {
  RankProgram program{};  ///< a name without '/' is looked up in PATH
  int processes = 1;
  StartMethod start_method = StartMethod::automatic;
  /// The world of the first rank started here, for a job that also has ranks on other nodes, or has a given rendezvous
  /// (tcp with a port, or file). nullopt, or tcp with port 0: the whole job is here, and its rendezvous is a store of
  /// the launcher.
  std::optional<World> first_rank{};
  std::string run_id{};  ///< name of the job, TORCHELASTIC_RUN_ID of the ranks; empty: a random one
  LinePrefix prefix{};
  OutputOptions output{};
  EndingPolicy ending{};
  /// The number of ranks that may be replaced in place: ranks that a signal ended or that hang, in programs whose other
  /// ranks continue from memory (GroupOptions::rejoins). Not with a given rendezvous.
  int replacements = 0;
  /// torchrun's --virtual-local-rank: each rank's LOCAL_RANK is 0, and it sees one GPU (CUDA_VISIBLE_DEVICES).
  bool virtual_local_rank = false;
  std::optional<LivePageOptions> page{};                          ///< nullopt: there is none
  std::vector<int> signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};  ///< each is passed on to the ranks and ends the job
  Environment environment = current_environment();                ///< the ranks inherit it
  int out = 1;                                                    ///< the descriptor for the ranks' stdout
  int err = 2;                                                    ///< the same for stderr
  int stop_fd = -1;  ///< once it is readable the ranks get a signal to end; -1: never
};

/// The width of the terminal that shows the ranks' lines, without the prefix, which is widest for `last_rank`; 0
/// without a terminal.
int columns_for_ranks(const LaunchOptions& options, int last_rank);

struct LaunchResult {
  int exit_code = 0;                ///< see judge() in report.h
  std::optional<int> first_failed;  ///< the rank whose failure ended the job
  std::string report;               ///< shown to the user; empty when all ranks ended well
  std::vector<RankEnd> ends;        ///< by rank
  int replaced = 0;                 ///< ranks that were replaced in place
  bool stopped = false;             ///< the ranks got a signal to end because of LaunchOptions::stop_fd
  std::optional<int> user_signal;   ///< the last signal that the user sent
};

/// What a launcher's loop reports of its ranks while they run, for people who look at the job, and what these ask of
/// it. All functions are called on the launcher's thread and do not block. Without `report` the loop does nothing for
/// it.
struct Watching {
  int round = 1;  ///< the start of all ranks, from 1
  /// Called about once a second, and when a rank has ended or was replaced.
  std::function<void(dashboard::JobReport)> report{};
  int requests_fd = -1;  ///< readable while there is a request; -1: there are none
  std::function<std::optional<dashboard::KillRequest>()> take_request{};
  std::function<void(const dashboard::KillRequest&, bool ok, const std::string& text)> answer{};
  /// The job has ended, and this is its result. The last call; may take half a second.
  std::function<void(const LaunchResult&, const LogFolder&)> ended{};
};

/// Starts `processes` ranks with torchrun's environment and hosts their rendezvous store, on a port that the kernel
/// chose, so that jobs never collide; rank 0 hosts the store where a rendezvous is given. Forwards output line by line,
/// and forwards `signals` to all ranks, which are killed after the grace period or at a second signal; SIGUSR1, unless
/// it is one of those, is only forwarded. When a rank fails, the other ranks get SIGTERM, and SIGKILL after the grace
/// period. Returns when no process that the ranks started is left.
///
/// If the launcher itself has a TORCHELASTIC_ERROR_FILE (it is a rank of another launcher), it writes the error of the
/// first failing rank there.
///
/// Call it from the main thread; meanwhile the program must not start other child processes. Error(invalid_argument)
/// without a program that can be run, or with ranks on other nodes and no rendezvous; Error(io) when a start fails.
LaunchResult launch(const LaunchOptions& options);

}  // namespace lockstep::cluster
