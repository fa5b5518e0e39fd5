// The status of a LockstepJob: the operator's state, which it reads again after it was killed.
#pragma once

#include <apps/operator/job/json_fields.h>

#include <array>
#include <cstdint>
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

}  // namespace lockstep::kube
