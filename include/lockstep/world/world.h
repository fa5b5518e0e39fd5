// The world of a process: its rank and size in the job, the rendezvous, and how they were detected.
#pragma once

#include <lockstep/base/environment.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The settings of a job with a scheduler, as a program or the `cluster` section of a configuration gives them.

/// The section `cluster` (docs/configuration.md#cluster, docs/scheduler.md). Each member begins with the variable of
/// the same meaning, which has priority; a member without a value is null. A plain value. Its rules are checked where
/// it is used: connect() and Trainer throw Error(environment) naming what is missing or out of range.
struct ClusterOptions {
  /// MS_ROLE: the role of this process; null: no scheduler. Allowed: MS_SCHED, MS_WORKER, MS_PSERVER.
  std::optional<std::string> role;
  /// MS_WORKER_NUM: workers of the whole job. Allowed: from 1 to 1048576.
  std::optional<std::int64_t> worker_num;
  /// MS_SERVER_NUM: parameter servers, for parallel.mode parameter_server. Allowed: at least 0.
  std::optional<std::int64_t> server_num;
  /// No key: whether the program has parameter servers, so that MS_PSERVER is a role.
  bool with_servers = false;
  /// MS_SCHED_HOST: the scheduler's address.
  std::optional<std::string> sched_host;
  /// MS_SCHED_PORT: the scheduler's port. Allowed: from 1024 to 65535.
  std::optional<std::int64_t> sched_port;
  /// MS_NODE_ID: a worker's own name; null: a random one.
  std::optional<std::string> node_id;
  /// MS_ENABLE_RECOVERY: the scheduler keeps the job's state, and lost workers may be replaced.
  bool enable_recovery = false;
  /// MS_RECOVERY_PATH: the folder of that state, or etcd://HOST:PORT/KEY.
  std::optional<std::string> recovery_path;
  /// MS_NODE_TIMEOUT: seconds without a heartbeat after which a worker is lost. Allowed: from 1 to 1000000.
  double node_timeout_s = 30;
  /// MS_TOPO_TIMEOUT: seconds the scheduler waits for workers to register. Allowed: from 1 to 1000000.
  double topo_timeout_s = 900;
  /// LOCKSTEP_HANG_TIMEOUT_S: seconds within which a worker must notice that the others cannot continue; later it
  /// counts as hanging. Allowed: from 1 to 1000000.
  double hang_timeout_s = 120;
  /// LOCKSTEP_ENABLE_SSL: TLS between workers and scheduler, each with a certificate.
  bool enable_ssl = false;
  /// LOCKSTEP_CLUSTER_CONFIG: JSON file that names the certificates.
  std::optional<std::string> config_file_path;
  /// LOCKSTEP_SERVER_PASSWORD: password of the scheduler's .p12 file.
  std::optional<std::string> server_password;
  /// LOCKSTEP_CLIENT_PASSWORD: password of the workers' .p12 file.
  std::optional<std::string> client_password;
  /// LOCKSTEP_SERVER_PASSWORD_FILE: a file with that password instead.
  std::optional<std::string> server_password_file;
  /// LOCKSTEP_CLIENT_PASSWORD_FILE: a file with that password instead.
  std::optional<std::string> client_password_file;
  /// LOCKSTEP_CLUSTER_SECRET_FILE: a file with a secret that all processes of the job share; LOCKSTEP_CLUSTER_SECRET is
  /// the secret itself.
  std::optional<std::string> secret_file;
  /// LOCKSTEP_ALLOW_INSECURE: allow connections to the scheduler from other machines without TLS.
  bool allow_insecure = false;
  /// the scheduler serves the live page of the job here: PORT or HOST:PORT, 0 is a free port; null: it does not.
  std::optional<std::string> dashboard;
};

namespace net {
struct PeerTls;
}

/// The time limits of a job for which nothing else is given, in seconds: of one collective, and of the start of all
/// ranks.
inline constexpr int kDefaultTimeoutS = 600;
inline constexpr int kDefaultStartTimeoutS = 300;

/// The kind of rendezvous before any group exists.
enum class Rendezvous {
  alone,      ///< one process: no rendezvous
  tcp,        ///< a store at master_addr:master_port
  file,       ///< a file that all ranks can access (store_path)
  mpi,        ///< MPI itself broadcasts the address of a store opened by rank 0
  scheduler,  ///< the scheduler at master_addr:master_port assigns the rank and publishes the store's address
};

/// The result of detection: the job of this process, and its place in it. A plain value: code outside world/ does not
/// depend on the launcher. Invariants (checked by `detect_world`): 0 <= rank < size, 0 <= local_rank < local_size <=
/// size; a local_size of 0 and a local_rank of -1 mean unknown, until `connect` has counted the ranks of this host
/// (Group::world() then has them). With Rendezvous::scheduler the rank is -1 until the scheduler has assigned it.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::optional<int> device;      ///< physical index on this host, where the launcher assigns one
  std::string host;               ///< this machine's name, for messages only
  std::string launcher = "none";  ///< none, pytorch, open_mpi, mpich, ...
  std::string evidence;           ///< the variables that decided the values above, e.g. "RANK=1 WORLD_SIZE=2"
  Rendezvous rendezvous = Rendezvous::alone;
  std::string master_addr;  ///< host of the store; with Rendezvous::scheduler, of the scheduler
  std::uint16_t master_port = 0;
  std::string store_path;          ///< path of the file, with Rendezvous::file
  bool store_is_external = false;  ///< the launcher hosts the store; rank 0 must not open one
  bool store_is_own = false;       ///< and it is certain that the store is not one of c10d
  std::string scheduler_secret;    ///< with Rendezvous::scheduler: the secret of the job; empty: none
  std::string job_service;  ///< HOST:PORT of the launcher's service that replaces lost ranks; empty: no such service
  /// This process's certificates, if the job encrypts data between hosts (GroupOptions::encrypt): connect() reads them.
  /// nullptr: no encryption.
  std::shared_ptr<const net::PeerTls> tls;
  std::string store_prefix;  ///< prefix of the keys in the store, e.g. "/worker/attempt_0" under torchrun
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
  std::string url = "env://";  ///< or tcp://host:port, file:///path; optionally with ?rank=R&world_size=N at the end
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
