// The start of each rank of a job: its command line (the user's program, and the macros in it), its folder and its
// environment, which has torchrun's variables, so that programs written for torchrun (in Python or C++) run unchanged.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/process.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

struct LaunchOptions;

/// The address of the store that a launcher hosts for ranks of Lockstep alone, protected from other clients. A plain
/// value for their environment.
struct OwnStoreAddress {
  std::string place;   ///< "127.0.0.1:4711"; empty: no store
  std::string secret;  ///< both sides prove that they have it
  bool operator==(const OwnStoreAddress&) const = default;
};

/// The address of the job service for ranks (rank_services.h). A plain value for their environment.
struct ServiceAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string secret;      ///< both sides prove that they have it
  bool encrypted = false;  ///< it uses TLS, and both sides present a certificate
  bool operator==(const ServiceAddress&) const = default;
};

/// The parameters that all ranks of one start share.
struct Launch {
  int ranks = 1;       ///< local ranks
  int first_rank = 0;  ///< the rank of local rank 0 in the world
  int world_size = 0;  ///< 0: there are only local ranks
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;            ///< the port of the launcher's store, or of rank 0's
  OwnStoreAddress own_store{};              ///< preferred by ranks of Lockstep to the store at master_port
  std::string store_path;                   ///< the file of a file rendezvous; empty: none
  bool hosts_store = true;                  ///< the launcher hosts the store; else rank 0
  std::optional<ServiceAddress> service{};  ///< where ranks register, so that lost ones can be replaced
  int turn = 0;                             ///< nodes of this round that were replaced before this node began
  int node = 0;                             ///< the number of this launcher's node, if `nodes` is given
  int nodes = 0;                            ///< 0: derived from an equal number of ranks on each node
  int restarts = 0;                         ///< restarts before this start
  int max_restarts = 0;
  std::string run_id;
  std::string role = "default";
  bool virtual_local_rank = false;  ///< LaunchOptions::virtual_local_rank
  int columns = 0;                  ///< for a rank's lines on the terminal that shows them; 0: there is no terminal
  /// The folder of this attempt to run the job; holds a folder for each rank, with its error file, status page and
  /// logs. Empty: no files.
  std::filesystem::path folder;
};

/// All ranks of the job, those of other nodes included.
int world_size_of(const Launch& job);

/// A rank's own folder; empty when there are no files.
std::filesystem::path folder_of_rank(const Launch& job, int local_rank);

/// The file where a rank writes the reason of its failure; empty when there are no files.
std::filesystem::path error_file_of(const Launch& job, int local_rank);

/// The file of a rank's status page; empty when there are no files.
std::filesystem::path status_file_of(const Launch& job, int local_rank);

/// The file that a rank keeps while it is in a session with the job service; empty when there are no files.
std::filesystem::path session_file_of(const Launch& job, int local_rank);

/// True when `environment_of_rank` limits each rank to one OpenMP thread because the user set no limit.
bool limits_threads(const Environment& inherited, int ranks);

/// `inherited`, overridden by the variables of `local_rank`.
Environment environment_of_rank(Environment inherited, const Launch& job, int local_rank);

/// The same for a process that takes the place of a lost one: without the injected fault (LOCKSTEP_FAULT), which has
/// already occurred.
Environment environment_of_replacement(Environment inherited, const Launch& job, int local_rank);

/// The common part of the environments of all `ranks` local ranks, for a process that loads their program before the
/// ranks' numbers are known: variables with a rank's numbers or its rendezvous are "?".
Environment environment_to_load_in(Environment inherited, int ranks);

/// The arguments, environment and pipes of one rank. Makes its folder, or empties it. Error(io) when that fails.
ChildOptions prepare_rank(const LaunchOptions& options, const Launch& job, int local_rank);

/// The same for a process that takes the place of a lost one.
ChildOptions prepare_replacement(const LaunchOptions& options, const Launch& job, int local_rank);

/// prepare_rank for all local ranks.
std::vector<ChildOptions> prepare_ranks(const LaunchOptions& options, const Launch& job);

/// Replacement of "${name}" in arguments and prefixes.
using Macros = std::map<std::string, std::string, std::less<>>;

/// `text` with "${name}" replaced for each name in `macros`; other text stays unchanged. Values are not expanded again.
std::string replace_macros(std::string_view text, const Macros& macros);

/// The way in which a program is run.
enum class ProgramKind {
  detect,      ///< a file *.py that is not executable by Python, anything else directly
  executable,  ///< directly (--no_python)
  script,      ///< by Python, whatever its file name is (--run_path)
  module,      ///< by `python -m`
};

struct RankProgram {
  /// The program and its arguments, in which "${local_rank}" stands for the rank's number.
  std::vector<std::string> command;
  ProgramKind kind = ProgramKind::detect;
  /// "local-rank": "--local-rank=N" is put before the program's own arguments. Empty: no such argument.
  std::string local_rank_option{};
};

/// Whether the program is a Python script or module: one that Python runs here, a file named *.py, or a file with
/// Python in its first line ("#!/usr/bin/env python3").
bool is_python(const RankProgram& program, const Environment& environment);

/// The words to execute for one rank. Python is `python3 -u` (unbuffered, because its output goes into a pipe), or the
/// value of PYTHON_EXEC. Error(invalid_argument) when there is no program.
std::vector<std::string> command_of_rank(const RankProgram& program, int local_rank, const Environment& environment);

}  // namespace lockstep::cluster
