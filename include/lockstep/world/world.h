// The world of a process: its rank and size in the job, the rendezvous, and how they were detected.
#pragma once

#include <lockstep/base/environment.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The kind of rendezvous by which ranks find each other before any group exists.
enum class Meeting {
  alone,      ///< one process: no rendezvous
  tcp,        ///< a store at master_addr:master_port
  file,       ///< a file that all ranks see (store_path)
  mpi,        ///< MPI itself broadcasts the address of a store opened by rank 0
  scheduler,  ///< the scheduler at master_addr:master_port assigns the rank and publishes the store's address
};

/// The result of detection: what this process knows of its job. A plain value: code outside world/ does not depend on
/// the launcher it came from. Invariants (checked by `detect_world`): 0 <= rank < size, 0 <= local_rank < local_size <=
/// size; a local_size of 0 means unknown, for launchers that do not give it, until `connect` has counted the ranks on
/// this host. With Meeting::scheduler the rank is -1 until the scheduler has assigned it, in `connect`.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::optional<int> device;      ///< physical index on this host, where the launcher assigns one
  std::string host;               ///< this machine's name, for messages only
  std::string launcher = "none";  ///< none, pytorch, open_mpi, mpich, ...
  std::string evidence;           ///< the variables that decided the values above, e.g. "RANK=1 WORLD_SIZE=2"
  Meeting meeting = Meeting::alone;
  std::string master_addr;  ///< host of the store; with Meeting::scheduler, of the scheduler
  std::uint16_t master_port = 0;
  std::string store_path;          ///< path of the file, with Meeting::file
  bool store_is_external = false;  ///< the launcher hosts the store; rank 0 must not open one
  std::string scheduler_secret;    ///< with Meeting::scheduler: the secret of the job; empty: none
  std::string job_service;   ///< HOST:PORT of the launcher's service that replaces lost ranks; empty: there is none
  std::string store_prefix;  ///< keys live under this prefix, e.g. "/worker/attempt_0" under torchrun
};

/// All functions of this header are thread-safe as long as no thread changes the environment.

/// Names accepted by `--launcher` and `detect_world`, "auto" first.
std::vector<std::string> launcher_names();

/// Detects the world from environment variables. `launcher` is "auto" or one of `launcher_names()`; Error(environment)
/// naming the variables when those of a named launcher are missing, when a set of variables is incomplete, or when
/// values contradict each other. Reads only `environment` and the file that RANK_TABLE_FILE names. The host is left
/// empty; the overload without an environment fills it in.
World detect_world(const Environment& environment, std::string_view launcher = "auto");

/// The same for this process's environment.
World detect_world(std::string_view launcher = "auto");

/// The arguments of torch.distributed.init_process_group with these names: the rendezvous, and this process's rank.
struct InitMethod {
  std::string url = "env://";  ///< or tcp://host:port, file:///path; with ?rank=R&world_size=N behind it or without
  std::optional<int> rank{};   ///< rank of the process, not of the node; must not be given together with ?rank=
  std::optional<int> world_size{};
};

/// The world of a process whose rendezvous is given as an init method. Without a rank and world size, here or in the
/// URL, a launcher's variables give them. Error(invalid_argument) when only one of them is given, and when they are
/// given in both places; otherwise the errors of detect_world().
World detect_world(const InitMethod& method);

/// Nodes that all start the same command; the order counts. Node 0 is the master.
struct NodeList {
  std::vector<std::string> addresses;      ///< names or numeric addresses
  std::optional<std::uint16_t> ctrl_port;  ///< where node 0 listens; needed for more than one node
  int devices_per_node = 1;                ///< ranks on each node
};

/// The world of this process in a program that is started once on each node. If a launcher's variables are set, they
/// take precedence over the list. Error(environment) when the node has several ranks, because one process cannot
/// represent them.
World detect_world(const NodeList& nodes);

/// One line for people: `rank 1 of 2 (local 1 of 2) on host h, started by pytorch (RANK=1 WORLD_SIZE=2)`.
std::string describe(const World& world);

}  // namespace lockstep
