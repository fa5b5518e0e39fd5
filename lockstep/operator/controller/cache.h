// What the API server has, as far as watches have told: only the fields that decisions need.
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

/// Thread-safe. Objects are known by "namespace/name", those that jobs own also by the label with the job's uid.
class Cache {
 public:
  /// Takes a new or changed object.
  void put(const Resource& resource, nlohmann::json object);
  /// Forgets an object; with a uid, only that one.
  void remove(const Resource& resource, const std::string& key, const std::string& uid = "");
  /// All objects of a kind; returns the keys of jobs that it changes something for.
  std::set<std::string> replace_all(const Resource& resource, std::vector<nlohmann::json> objects);

  Object find(const Resource& resource, const std::string& key) const;
  /// Those of a kind whose controller is the job with this uid.
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

/// The key of the job that an object belongs to, by its labels; the object's own for a job. Empty: of none.
std::string job_key_of(const Resource& resource, const nlohmann::json& object);

}  // namespace lockstep::kube
