// A cache of the API server's objects, filled by watches, with only the fields that decisions need.
#pragma once

#include <lockstep/operator/api/resource.h>

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace lockstep::kube {

using Object = std::shared_ptr<const nlohmann::json>;

/// Thread-safe. The key of an object is "namespace/name"; objects that jobs own are also indexed by the label with the
/// job's uid.
class Cache {
 public:
  /// Stores a new or changed object.
  void put(const Resource& resource, nlohmann::json object);
  /// Removes an object; with a uid, only the object with this uid.
  void remove(const Resource& resource, const std::string& key, const std::string& uid = "");
  /// Replaces all objects of a kind; returns the keys of the jobs that this affects.
  std::set<std::string> replace_all(const Resource& resource, std::vector<nlohmann::json> objects);

  Object find(const Resource& resource, const std::string& key) const;
  /// The objects of a kind whose controller is the job with this uid.
  std::vector<Object> owned(const Resource& resource, const std::string& job_uid) const;
  std::vector<Object> all(const Resource& resource) const;

 private:
  struct Kind {
    std::map<std::string, Object> objects;
    std::map<std::string, std::set<std::string>> of_job;  ///< by uid: keys
  };
  static void insert(Kind& kind, const Resource& resource, nlohmann::json object);
  static void erase(Kind& kind, std::map<std::string, Object>::iterator at);

  mutable std::mutex mutex_;
  std::map<std::string, Kind> kinds_;
};

std::string key_of(const nlohmann::json& object);

/// The key of the job to which an object belongs, by its labels; for a job, its own key. Empty: it belongs to no job.
std::string job_key_of(const Resource& resource, const nlohmann::json& object);

}  // namespace lockstep::kube
