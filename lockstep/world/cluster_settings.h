// The settings of a job with a scheduler, merged from MS_ROLE and related variables and from ClusterOptions.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Describes the keys of ClusterOptions, for base/config.h.
void describe(ConfigFields& fields, ClusterOptions& c);

enum class ClusterRole { scheduler, worker, server };

/// A password or secret: as text, in a file, or absent.
struct HiddenText {
  std::optional<std::string> text{};
  std::optional<std::string> file{};  ///< used only without `text`
};

/// The certificates of a process, also in a job without a scheduler.
struct CertificateSettings {
  std::string config_file;  ///< JSON file that names them; empty: none is given
  HiddenText server_password{};
  HiddenText client_password{};
};

/// LOCKSTEP_CLUSTER_CONFIG and the passwords, from variables and configuration. Error(environment) when a password is
/// given twice. Reads no file.
CertificateSettings find_certificates(const Environment& environment, const ClusterOptions& options);

/// The settings from variables and configuration, merged and checked.
struct ClusterSettings {
  ClusterRole role = ClusterRole::worker;
  int workers = 1;
  int servers = 0;   ///< parameter servers, where the program has them (ClusterOptions::with_servers)
  std::string host;  ///< the scheduler's
  std::uint16_t port = 0;
  std::string node_id;  ///< empty: a random one
  bool recovery = false;
  std::string recovery_path;  ///< used with `recovery`
  double node_timeout_s = 30;
  double topo_timeout_s = 900;
  double hang_timeout_s = 120;
  bool enable_ssl = false;
  std::string config_file;  ///< used with `enable_ssl`
  HiddenText server_password;
  HiddenText client_password;
  HiddenText secret;
  bool allow_insecure = false;
  std::optional<std::string> dashboard{};  ///< the address of the live page; for the scheduler
  std::string evidence;                    ///< the variables and keys that decided, without passwords
};

/// The merged settings; nullopt when no role is given. Error(environment) naming what is missing or breaks a rule, and
/// Error(unsupported) for the role of a parameter server where the program has none, and for recovery where it has
/// some. `role`: overrides the role of variables and configuration. Reads no file.
std::optional<ClusterSettings> find_cluster(const Environment& environment, const ClusterOptions& options,
                                            std::optional<ClusterRole> role = std::nullopt);

namespace detail {

/// The world of a worker, whose rank the scheduler will assign. Error(environment) for the scheduler itself.
World world_of_worker(const ClusterSettings& settings, const Environment& environment);

/// Error(environment) when variables of a job with a scheduler are set, but no role.
void refuse_half_a_cluster(const Environment& environment);

}  // namespace detail
/// A number of seconds of the settings, as a duration.
std::chrono::milliseconds milliseconds_of(double seconds);

}  // namespace lockstep
