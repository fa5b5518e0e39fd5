// The operator's decisions: one pure function from what is observed of a job to what is to be done about it.
#pragma once

#include <apps/operator/api/resource.h>
#include <apps/operator/decide/pod_failures.h>
#include <apps/operator/job/job.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::kube {

/// Which scheduler of gangs the cluster has.
enum class GangScheduler { none, volcano, scheduling };

/// An object of a job other than a Pod.
struct Part {
  std::string uid;
  nlohmann::json data;  ///< the fields that are compared with their target; null: none
};

/// Why an object of a job can never be created: another owner has its name, or the server rejects its template.
struct Obstacle {
  std::string reason;  ///< "NameConflict", "PodRefused"
  std::string message;
};

struct Observed {
  Job job;
  std::vector<PodView> pods{};       ///< the Pods of all attempts whose controller is this job
  std::optional<Part> service{};     ///< all parts are owned by this job
  std::optional<Part> config_map{};  ///< `data`: its field data
  std::optional<Part> secret{};
  std::optional<Part> pod_group{};  ///< `data`: its status
  GangScheduler gang = GangScheduler::none;
  std::optional<Obstacle> obstacle{};
  std::optional<std::int64_t> step{};  ///< the scheduler's last report; nullopt: none since this operator started
};

struct CreateObject {
  const Resource* resource;
  nlohmann::json object;
};
struct ReplaceObject {  ///< with the data that it should have
  const Resource* resource;
  nlohmann::json object;
};
/// The Secret with new certificates for these hosts. A separate action, because certificates contain random numbers.
struct CreateCertificates {
  std::string name;
  std::vector<std::string> hosts;
};
struct DeleteObject {
  const Resource* resource;
  std::string name;
  std::string uid;
};

/// The complete list of the job's finalizers.
struct SetFinalizers {
  std::vector<std::string> finalizers;
};
/// Deletes a key of an etcd, "etcd://HOST:PORT/KEY".
struct ClearState {
  std::string url;
};

using Action = std::variant<CreateObject, ReplaceObject, CreateCertificates, DeleteObject, SetFinalizers, ClearState>;

struct EventNote {
  bool warning = false;
  std::string reason;
  std::string message;

  bool operator==(const EventNote&) const = default;
};

/// The order of execution: the status is stored before anything is deleted or created, so that the successor of a
/// failed operator does not count a failure twice. If the status cannot be stored, nothing else may be done.
struct Decision {
  std::optional<Status> status{};  ///< nullopt: it stays as it is
  std::vector<Action> actions{};
  std::vector<EventNote> events{};
  std::optional<std::chrono::milliseconds> again{};  ///< decide again after this time, even if nothing changes
};

Decision decide(const Observed& observed, Time now);

}  // namespace lockstep::kube
