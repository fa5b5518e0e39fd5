// The settings of a job with a scheduler, as a program or the `cluster` section of a configuration gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// The section `cluster` (docs/configuration.md#cluster, docs/scheduler.md). Each member begins with the variable of
/// the same meaning, which has priority; a member without a value is null. A plain value. Its rules are checked where
/// it is used: connect() and run_training() throw Error(environment) naming what is missing or out of range.
struct ClusterOptions {
  /// MS_ROLE: what this process is; null: no scheduler. Allowed: MS_SCHED, MS_WORKER.
  std::optional<std::string> role;
  /// MS_WORKER_NUM: workers of the whole job. Allowed: from 1 to 1048576.
  std::optional<std::int64_t> worker_num;
  /// MS_SERVER_NUM: parameter servers, which have no part in this. Allowed: at least 0.
  std::optional<std::int64_t> server_num;
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
  /// MS_NODE_TIMEOUT: seconds of silence after which a worker is lost. Allowed: from 1 to 1000000.
  double node_timeout_s = 30;
  /// MS_TOPO_TIMEOUT: seconds the scheduler waits for workers that do not come. Allowed: from 1 to 1000000.
  double topo_timeout_s = 900;
  /// LOCKSTEP_HANG_TIMEOUT_S: seconds after which a worker hangs that has not noticed that the others cannot go on.
  /// Allowed: from 1 to 1000000.
  double hang_timeout_s = 120;
  /// LOCKSTEP_ENABLE_SSL: TLS between workers and scheduler, each with a certificate.
  bool enable_ssl = false;
  /// LOCKSTEP_CLUSTER_CONFIG: JSON file that names the certificates.
  std::optional<std::string> config_file_path;
  /// LOCKSTEP_SERVER_PASSWORD: of the scheduler's .p12 file.
  std::optional<std::string> server_password;
  /// LOCKSTEP_CLIENT_PASSWORD: of the workers' .p12 file.
  std::optional<std::string> client_password;
  /// LOCKSTEP_SERVER_PASSWORD_FILE: a file with that password instead.
  std::optional<std::string> server_password_file;
  /// LOCKSTEP_CLIENT_PASSWORD_FILE: a file with that password instead.
  std::optional<std::string> client_password_file;
  /// LOCKSTEP_CLUSTER_SECRET_FILE: a file with a secret that all processes of the job share. The variable
  /// LOCKSTEP_CLUSTER_SECRET is the secret itself.
  std::optional<std::string> secret_file;
  /// LOCKSTEP_ALLOW_INSECURE: let the scheduler be reached from other machines without TLS.
  bool allow_insecure = false;
};

}  // namespace lockstep
