// A cache of slimmed objects by kind and name, with an index by the job's uid.
#include <apps/operator/controller/cache.h>
#include <apps/operator/job/json_fields.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/text.h>

#include <algorithm>

namespace lockstep::kube {
namespace {

using nlohmann::json;

std::string kind_key(const Resource& resource) { return resource.group + "/" + resource.plural; }

/// The number of a resource version; 0 if it is no number.
std::uint64_t number_of(const std::string& version) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(parse_integer(version).value_or(0), 0));
}

/// A Pod has some 10 KB, and decisions need a tenth of it; for Secrets, only their existence is kept.
json slim(const Resource& resource, json object) {
  json kept;
  const json& about = object_at(object, "metadata");
  for (const char* key : {"name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences", "generation",
                          "deletionTimestamp", "finalizers"}) {
    if (about.contains(key)) kept["metadata"][key] = about[key];
  }
  if (resource == lockstep_jobs()) {
    kept["spec"] = std::move(object["spec"]);
    if (object.contains("status")) kept["status"] = std::move(object["status"]);
  } else if (resource == pods()) {
    const auto node = text_at(object_at(object, "spec"), "nodeName");
    if (!node.empty()) kept["spec"]["nodeName"] = node;
    const json& status = object_at(object, "status");
    for (const char* key : {"phase", "reason", "message", "podIP", "conditions", "containerStatuses"}) {
      if (status.contains(key)) kept["status"][key] = status[key];
    }
  } else if (resource == config_maps()) {
    kept["data"] = object_at(object, "data");
  } else if (resource.plural == "podgroups") {
    kept["status"] = object_at(object, "status");
  }
  return kept;
}

}  // namespace

std::string key_of(const json& object) { return space_of(object) + "/" + name_of(object); }

std::string job_key_of(const Resource& resource, const json& object) {
  if (resource == lockstep_jobs()) return key_of(object);
  const auto job = label_of(object, kJobNameLabel);
  return job.empty() ? "" : space_of(object) + "/" + job;
}

void Cache::erase(Kind& kind, std::map<std::string, Object>::iterator at) {
  const auto uid = label_of(*at->second, kJobUidLabel);
  if (const auto keys = kind.of_job.find(uid); keys != kind.of_job.end()) {
    keys->second.erase(at->first);
    if (keys->second.empty()) kind.of_job.erase(keys);
  }
  kind.objects.erase(at);
}

void Cache::insert(Kind& kind, const Resource& resource, json object) {
  const auto key = key_of(object);
  if (const auto old = kind.objects.find(key); old != kind.objects.end()) {
    const bool same = uid_of(*old->second) == uid_of(object);
    const auto version = number_of(version_of(object));
    if (same && version != 0 && version < number_of(version_of(*old->second))) return;
    erase(kind, old);
  }
  const auto uid = label_of(object, kJobUidLabel);
  kind.objects[key] = std::make_shared<const json>(slim(resource, std::move(object)));
  if (!uid.empty()) kind.of_job[uid].insert(key);
}

void Cache::apply(const Resource& resource, const WatchEvent& event) {
  if (event.change == Change::deleted) remove(resource, key_of(event.object), uid_of(event.object));
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[kind_key(resource)];
  if (event.change == Change::added || event.change == Change::modified) insert(kind, resource, event.object);
  kind.delivered = std::max(kind.delivered, number_of(event.version));
}

void Cache::put(const Resource& resource, json object) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[kind_key(resource)];
  const auto version = number_of(version_of(object));
  if (version == 0 || version > kind.delivered) insert(kind, resource, std::move(object));
}

void Cache::remove(const Resource& resource, const std::string& key, const std::string& uid) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[kind_key(resource)];
  const auto found = kind.objects.find(key);
  if (found != kind.objects.end() && (uid.empty() || uid_of(*found->second) == uid)) erase(kind, found);
}

void Cache::replace_all(const Resource& resource, std::vector<json> objects, const std::string& version) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[kind_key(resource)];
  Kind listed;
  listed.delivered = number_of(version);
  for (json& object : objects) insert(listed, resource, std::move(object));
  // Numbers that have gone back are those of a restored server, which has none of the newer objects.
  const bool restored = listed.delivered < kind.delivered;
  for (const auto& [key, object] : kind.objects) {
    if (!restored && number_of(version_of(*object)) > listed.delivered) insert(listed, resource, *object);
  }
  kind = std::move(listed);
}

Object Cache::find(const Resource& resource, const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto kind = kinds_.find(kind_key(resource));
  if (kind == kinds_.end()) return nullptr;
  const auto found = kind->second.objects.find(key);
  return found == kind->second.objects.end() ? nullptr : found->second;
}

std::vector<Object> Cache::owned(const Resource& resource, const std::string& job_uid) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> objects;
  const auto kind = kinds_.find(kind_key(resource));
  if (kind == kinds_.end()) return objects;
  const auto keys = kind->second.of_job.find(job_uid);
  if (keys == kind->second.of_job.end()) return objects;
  for (const std::string& key : keys->second) {
    const Object& object = kind->second.objects.at(key);
    if (controller_uid(*object) == job_uid) objects.push_back(object);
  }
  return objects;
}

std::vector<Object> Cache::all(const Resource& resource) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> objects;
  const auto kind = kinds_.find(kind_key(resource));
  if (kind == kinds_.end()) return objects;
  for (const auto& [key, object] : kind->second.objects) objects.push_back(object);
  return objects;
}

}  // namespace lockstep::kube
