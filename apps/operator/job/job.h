// A LockstepJob as a value: what the user wrote, with defaults, and its status, which the operator writes and reads
// again after it was killed; and the CustomResourceDefinition of such objects.
#pragma once

#include <apps/operator/job/json.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep::kube {

enum class Role { scheduler, ps, worker };

inline constexpr std::array kRoles = {Role::scheduler, Role::ps, Role::worker};

/// "Scheduler", "PS", "Worker", as in a spec.
std::string_view name(Role role);
std::optional<Role> parse_role(std::string_view text);

// Types of conditions.
inline constexpr const char* kCreated = "Created";
inline constexpr const char* kRunning = "Running";
inline constexpr const char* kRestarting = "Restarting";
inline constexpr const char* kSuspended = "Suspended";
inline constexpr const char* kSucceeded = "Succeeded";
inline constexpr const char* kFailed = "Failed";

struct Condition {
  std::string type;
  bool holds = false;
  std::string reason;
  std::string message;
  Seconds since;  ///< the last change of `holds`

  bool operator==(const Condition&) const = default;
};

/// The failure of the rank that failed first.
struct Failure {
  std::string pod;
  std::string uid;
  Role role = Role::worker;
  int index = 0;
  std::string node;
  std::optional<int> exit_code{};
  std::string reason;   ///< Kubernetes' reason, e.g. "OOMKilled", "Evicted"; or the kind of the rank's error
  std::string message;  ///< the rank's error message
  int attempt = 0;

  bool operator==(const Failure&) const = default;
};

struct ReplicaCounts {
  int active = 0;
  int ready = 0;
  int succeeded = 0;
  int failed = 0;

  bool operator==(const ReplicaCounts&) const = default;
};

struct Status {
  std::int64_t observed_generation = 0;
  std::string phase;  ///< for people: the most important condition
  std::optional<Seconds> start_time{};
  std::optional<Seconds> completion_time{};
  int attempt = 0;   ///< starts of all ranks; 0: none yet
  int restarts = 0;  ///< counted against backoffLimit
  int workers = 0;   ///< the number of workers that this attempt was started with
  std::optional<std::int64_t> step{};
  std::string last_error{};
  std::optional<Failure> first_failure{};  ///< of the newest attempt with a failure
  std::vector<Condition> conditions{};
  std::map<Role, ReplicaCounts> replicas{};
  /// How often a rank of this attempt was replaced in place; without entries for 0.
  std::map<Role, std::map<int, int>> replacements{};
  /// Ranks of this attempt that have completed; their Pods may be deleted.
  std::map<Role, std::set<int>> completed{};
  std::string selector{};  ///< of the workers' Pods, for the subresource scale

  bool operator==(const Status&) const = default;

  const Condition* find(std::string_view type) const;
  bool holds(std::string_view type) const;
  /// The job has ended; the status no longer changes.
  bool final() const { return holds(kSucceeded) || holds(kFailed); }
  /// Sets a condition; its time changes only with `holds`.
  void set(std::string_view type, bool holds, std::string reason, std::string message, Seconds now);
  int replacement(Role role, int index) const;
};

nlohmann::json to_json(const Status& status);

/// Reads the output of to_json(); fields that are missing or of another type are as in a new status.
Status parse_status(const nlohmann::json& json);

/// {0, 1, 2, 7} as "0-2,7", and back.
std::string print_indexes(const std::set<int>& indexes);
std::set<int> parse_indexes(std::string_view text);

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

/// The CustomResourceDefinition, for apiextensions.k8s.io/v1: a structural schema with defaults, ranges and enums,
/// without features that servers of version 1.20 lack.
nlohmann::ordered_json custom_resource_definition();

}  // namespace lockstep::kube
