// The settings of a job with a scheduler, from MS_ROLE and related variables and from the `cluster` section of a
// configuration.
#pragma once

#include <lockstep/base/config_fields.h>
#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// The values of the configuration. For each, the variable of the same meaning has priority.
struct ClusterOptions {
  std::optional<std::string> role;                  ///< MS_ROLE: MS_SCHED or MS_WORKER
  std::optional<std::int64_t> worker_num;           ///< MS_WORKER_NUM
  std::optional<std::int64_t> server_num;           ///< MS_SERVER_NUM
  std::optional<std::string> sched_host;            ///< MS_SCHED_HOST
  std::optional<std::int64_t> sched_port;           ///< MS_SCHED_PORT
  std::optional<std::string> node_id;               ///< MS_NODE_ID
  bool enable_recovery = false;                     ///< MS_ENABLE_RECOVERY
  std::optional<std::string> recovery_path;         ///< MS_RECOVERY_PATH
  double node_timeout_s = 30;                       ///< MS_NODE_TIMEOUT
  double topo_timeout_s = 900;                      ///< MS_TOPO_TIMEOUT
  double hang_timeout_s = 120;                      ///< LOCKSTEP_HANG_TIMEOUT_S
  bool enable_ssl = false;                          ///< LOCKSTEP_ENABLE_SSL
  std::optional<std::string> config_file_path;      ///< LOCKSTEP_CLUSTER_CONFIG: JSON with certificates
  std::optional<std::string> server_password;       ///< LOCKSTEP_SERVER_PASSWORD, of the server's .p12
  std::optional<std::string> client_password;       ///< LOCKSTEP_CLIENT_PASSWORD, of the client's
  std::optional<std::string> server_password_file;  ///< LOCKSTEP_SERVER_PASSWORD_FILE: a file that holds it
  std::optional<std::string> client_password_file;  ///< LOCKSTEP_CLIENT_PASSWORD_FILE
  std::optional<std::string>
      secret_file;              ///< LOCKSTEP_CLUSTER_SECRET_FILE, or the text itself in LOCKSTEP_CLUSTER_SECRET
  bool allow_insecure = false;  ///< LOCKSTEP_ALLOW_INSECURE
};

/// Its keys, for base/config.h.
void describe(ConfigFields& fields, ClusterOptions& c);

enum class ClusterRole { scheduler, worker };

/// A password or secret: given, or in a file, or not at all.
struct HiddenText {
  std::optional<std::string> text{};
  std::optional<std::string> file{};  ///< counts without `text`
};

/// The settings from variables and configuration, merged and checked.
struct ClusterSettings {
  ClusterRole role = ClusterRole::worker;
  int workers = 1;
  std::string host;  ///< the scheduler's
  std::uint16_t port = 0;
  std::string node_id;  ///< empty: a random one
  bool recovery = false;
  std::string recovery_path;  ///< with recovery
  double node_timeout_s = 30;
  double topo_timeout_s = 900;
  double hang_timeout_s = 120;
  bool enable_ssl = false;
  std::string config_file;  ///< with enable_ssl
  HiddenText server_password;
  HiddenText client_password;
  HiddenText secret;
  bool allow_insecure = false;
  std::string evidence;  ///< the variables and keys that decided, without passwords
};

/// nullopt when there is no role. Error(environment) naming what is missing or breaks a rule, and Error(unsupported)
/// for the role of a parameter server. `role`: overrides the role of variables and configuration. Reads no file.
std::optional<ClusterSettings> find_cluster(const Environment& environment, const ClusterOptions& options,
                                            std::optional<ClusterRole> role = std::nullopt);

namespace detail {

/// The world of a worker, whose rank the scheduler will assign. Error(environment) for the scheduler itself.
World world_of_worker(const ClusterSettings& settings, const Environment& environment);

/// Error(environment) when there are variables of a cluster and no role.
void refuse_half_a_cluster(const Environment& environment);

}  // namespace detail
}  // namespace lockstep
