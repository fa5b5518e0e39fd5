// A cache of the API server's objects with only the fields that decisions need, and the watch that keeps the objects of
// one kind in it and reports the jobs that have changed.
#pragma once

#include <apps/operator/api/answer.h>
#include <apps/operator/api/client.h>
#include <apps/operator/api/resource.h>
#include <apps/operator/controller/metrics.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace lockstep::kube {

using Object = std::shared_ptr<const nlohmann::json>;

/// Thread-safe. The key of an object is "namespace/name"; objects that jobs own are also indexed by the label with the
/// job's uid.
///
/// An object arrives in two ways that overtake each other: as an event of the watch, and as the answer to a request of
/// this operator. The newer resource version of the two stays. Versions of one kind are increasing numbers; a version
/// that is no number is not compared.
class Cache {
 public:
  /// Applies an event of the watch of this kind.
  void apply(const Resource& resource, const WatchEvent& event);
  /// Stores an object that a request returned. No effect if the watch has already delivered what followed it: the
  /// object may have been deleted since.
  void put(const Resource& resource, nlohmann::json object);
  /// Removes an object that does not exist any more; with a uid, only the object with this uid.
  void remove(const Resource& resource, const std::string& key, const std::string& uid = "");
  /// Replaces all objects of a kind by a list, whose version is `version`.
  void replace_all(const Resource& resource, std::vector<nlohmann::json> objects, const std::string& version);

  Object find(const Resource& resource, const std::string& key) const;
  /// The objects of a kind whose controller is the job with this uid.
  std::vector<Object> owned(const Resource& resource, const std::string& job_uid) const;
  std::vector<Object> all(const Resource& resource) const;

 private:
  struct Kind {
    std::map<std::string, Object> objects;
    std::map<std::string, std::set<std::string>> of_job;  ///< by uid: keys
    std::uint64_t delivered = 0;  ///< the watch and its list have delivered all versions to this
  };
  static void insert(Kind& kind, const Resource& resource, nlohmann::json object);
  static void erase(Kind& kind, std::map<std::string, Object>::iterator at);

  mutable std::mutex mutex_;
  std::map<std::string, Kind> kinds_;
};

std::string key_of(const nlohmann::json& object);

/// The key of the job to which an object belongs, by its labels; for a job, its own key. Empty: it belongs to no job.
std::string job_key_of(const Resource& resource, const nlohmann::json& object);

struct WatchOptions {
  Resource resource;
  std::string space;     ///< empty: all namespaces
  std::string selector;  ///< of labels
  std::chrono::seconds time = std::chrono::seconds(300);
};

/// Lists and watches until `stop`; each error is logged once, with a retry after 0.2 s to 30 s. `changed` gets the
/// keys of jobs. `synced` becomes true after the first list.
void watch_forever(ApiClient client, const WatchOptions& options, Cache& cache, Metrics& metrics,
                   std::atomic<bool>& synced, const std::function<void(const std::string&)>& changed,
                   std::stop_token stop);

}  // namespace lockstep::kube
