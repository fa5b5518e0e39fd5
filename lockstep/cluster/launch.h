// `lockstep run` as a function: starts the ranks of a job on this machine and returns when all of them have ended.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/processes/ending.h>
#include <lockstep/cluster/rank_command.h>
#include <lockstep/cluster/report.h>
#include <lockstep/world/world.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// How the processes of the ranks are started.
enum class StartMethod {
  automatic,    ///< the value of LOCKSTEP_START_METHOD, else fork_server
  fork_server,  ///< forks of one process that has loaded the program, where that is possible; else spawn
  spawn,        ///< each is started by itself
};

struct LaunchOptions {
  RankProgram program{};  ///< one without '/' is looked up in PATH
  int processes = 1;
  StartMethod start_method = StartMethod::automatic;
  /// The world of the first rank started here, in a job that has ranks on other nodes too or a given rendezvous
  /// (tcp with a port, or file). nullopt, or tcp with port 0: the whole job is here, and its rendezvous is a store of
  /// the launcher.
  std::optional<World> first_rank{};
  std::string run_id{};  ///< name of the job, TORCHELASTIC_RUN_ID of the ranks; empty: a random one
  LinePrefix prefix{};
  OutputOptions output{};
  EndingPolicy ending{};
  /// How many ranks may be replaced in place: those that a signal ended or that hang, in programs whose other ranks go
  /// on from memory (GroupOptions::rejoins). Not with a given rendezvous.
  int replacements = 0;
  /// torchrun's --virtual-local-rank: each rank's LOCAL_RANK is 0, and it sees one GPU (CUDA_VISIBLE_DEVICES).
  bool virtual_local_rank = false;
  std::vector<int> signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};  ///< each is passed on to the ranks and ends the job
  Environment environment = current_environment();                ///< the ranks inherit it
  int out = 1;                                                    ///< descriptor that gets what ranks write to stdout
  int err = 2;                                                    ///< the same for stderr
  int stop_fd = -1;  ///< once it is readable the ranks are asked to end; -1: never
};

/// The width of the terminal that shows the ranks' lines, without the prefix, which is widest for `last_rank`; 0 when
/// there is none.
int columns_for_ranks(const LaunchOptions& options, int last_rank);

struct LaunchResult {
  int exit_code = 0;                ///< see judge() in report.h
  std::optional<int> first_failed;  ///< the rank whose failure ended the job
  std::string report;               ///< for people; empty when all ranks ended well
  std::vector<RankEnd> ends;        ///< by rank
  int replaced = 0;                 ///< ranks that were replaced in place
  bool stopped = false;             ///< the ranks were asked to end because of LaunchOptions::stop_fd
  std::optional<int> user_signal;   ///< the last that the user sent
};

/// Starts `processes` ranks with torchrun's environment, hosts their rendezvous store (on a port the kernel chose, so
/// that jobs never collide; rank 0 hosts it where a rendezvous is given), forwards output line by line and `signals` to
/// all ranks, which are killed after the grace period or at a second signal; SIGUSR1, unless it is one of those, is
/// only forwarded. When a rank fails the others get SIGTERM, and SIGKILL after the grace period. Returns once no
/// process that came from the ranks is left.
///
/// Where the launcher itself was given a TORCHELASTIC_ERROR_FILE (it is a rank of another launcher), the error of the
/// first failing rank is written there.
///
/// Call it from the main thread; meanwhile the program must not start other child processes. Error(invalid_argument)
/// without a program that can be run, or with ranks on other nodes and no rendezvous; Error(io) when a start fails.
LaunchResult launch(const LaunchOptions& options);

}  // namespace lockstep::cluster
