// A LockstepJob as a value: what the user wrote, with defaults, and what the operator wrote into its status.
#pragma once

#include <apps/operator/job/status.h>

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::kube {

enum class Mode {
  scheduler,  ///< the rendezvous of the workers is Lockstep's scheduler
  run,        ///< each Pod has a launcher; the launchers coordinate through a store in worker 0
  none,       ///< one worker, no variables
};

enum class RestartPolicy { on_failure, always, never, exit_code };
enum class CleanPods { running, all, none };
enum class TlsSource { insecure, automatic, named };

inline constexpr int kMostReplicas = 10000;  ///< of a role
inline constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int32_t>::max();

struct RoleSpec {
  int replicas = 1;
  RestartPolicy restart = RestartPolicy::on_failure;
  nlohmann::json pod_template;
};

struct Elastic {
  int min = 1;
  int max = 1;
};

/// The settings for a gang scheduler.
struct Gang {
  std::optional<int> min_available{};  ///< nullopt: all Pods
  std::string queue{};
  std::string priority_class{};
  nlohmann::json min_resources{};
  std::optional<int> timeout_s{};
};

struct JobSpec {
  std::map<Role, RoleSpec> roles{};
  Mode mode = Mode::run;
  bool all_workers = false;  ///< success needs all of them
  std::optional<Elastic> elastic{};
  bool recovery = false;
  std::string recovery_path{};
  bool recovery_clear = false;  ///< its key in etcd is deleted with the job
  TlsSource tls = TlsSource::insecure;
  std::string secret{};  ///< of TlsSource::named
  bool suspend = false;
  CleanPods clean = CleanPods::running;
  int backoff_limit = 6;
  std::optional<std::int64_t> active_deadline_s{};
  std::optional<std::int64_t> ttl_s{};
  std::optional<Gang> gang{};

  /// The required number of Pods of a role, within the limits of an elastic job; 0 for a role that the job lacks.
  int wanted(Role role) const;
};

struct Job {
  std::string space;
  std::string name;
  std::string uid;
  std::string version;  ///< resourceVersion
  std::int64_t generation = 0;
  bool deleting = false;
  std::vector<std::string> finalizers{};
  JobSpec spec;
  Status status;
  std::vector<std::string> problems{};  ///< why the spec is invalid: "spec.mode: ..."; empty: it is valid

  std::string key() const { return space + "/" + name; }
};

/// Reads an object of the API server. Never throws for mistakes of a user: they are in `problems`.
Job parse_job(const nlohmann::json& object);

/// The spec with its defaults; the path and reason of each mistake go to `problems`.
JobSpec parse_spec(const nlohmann::json& spec, const std::string& job_name, std::vector<std::string>& problems);

}  // namespace lockstep::kube
