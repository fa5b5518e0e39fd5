// A cache of slimmed objects by kind and name, with an index by the job's uid; and the list-and-watch loop for one kind
// of object that fills it, with jittered watch times and pauses that double.
#include <apps/operator/controller/cache.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

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

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause(200);
constexpr milliseconds kLongestPause(30'000);

class Watcher {
 public:
  Watcher(ApiClient& client, const WatchOptions& options, Cache& cache,
          const std::function<void(const std::string&)>& changed)
      : client_(client), options_(options), cache_(cache), changed_(changed) {}

  /// False: it has failed, and `trouble` has the reason.
  bool list() {
    Listed listed = client_.list(path(), options_.selector);
    if (!listed.answer.ok()) return note(listed.answer);
    version_ = listed.version;
    cache_.replace_all(options_.resource, std::move(listed.items), version_);
    // Each job: what was created and deleted since the last event is in neither the list nor the cache.
    for (const Object& job : cache_.all(lockstep_jobs())) changed_(key_of(*job));
    return true;
  }

  bool watch(std::chrono::seconds time) {
    const auto end =
        client_.watch(path(), options_.selector, version_, time, [&](const WatchEvent& event) { take(event); });
    progress_ = end.version != version_;
    version_ = end.version;
    if (end.why && end.why->outcome != Outcome::expired) return note(*end.why);
    trouble_ = end.trouble;
    return end.trouble.empty();
  }

  bool must_list() const { return version_.empty(); }
  /// The last watch delivered events before it ended.
  bool progress() const { return progress_; }
  const std::string& trouble() const { return trouble_; }
  std::optional<std::chrono::seconds> wait() const { return wait_; }

 private:
  std::string path() const { return path_of(options_.resource, options_.space); }

  bool note(const Answer& answer) {
    trouble_ = answer.text();
    wait_ = answer.retry_after;
    if (answer.outcome == Outcome::missing && options_.resource == lockstep_jobs()) {
      trouble_ =
          "the cluster has no resource LockstepJob; install it with 'lockstep operator --print-crd | kubectl apply -f "
          "-'";
    }
    return false;
  }

  void take(const WatchEvent& event) {
    cache_.apply(options_.resource, event);
    if (event.change == Change::bookmark) return;
    const auto job = job_key_of(options_.resource, event.object);
    if (!job.empty()) changed_(job);
  }

  ApiClient& client_;
  const WatchOptions& options_;
  Cache& cache_;
  const std::function<void(const std::string&)>& changed_;
  std::string version_;  ///< empty: list again
  bool progress_ = false;
  std::string trouble_;
  std::optional<std::chrono::seconds> wait_;
};

void wait_to_retry(milliseconds time, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

void watch_forever(ApiClient client, const WatchOptions& options, Cache& cache, Metrics& metrics,
                   std::atomic<bool>& synced, const std::function<void(const std::string&)>& changed,
                   std::stop_token stop) {
  const std::stop_callback cancel(stop, [&] { client.cancel(); });
  std::minstd_rand random(std::random_device{}());
  Watcher watcher(client, options, cache, changed);
  milliseconds wait = kFirstPause;
  std::string last_trouble;
  while (!stop.stop_requested()) {
    bool good = true;
    if (watcher.must_list()) {
      good = watcher.list();
      if (good) synced = true;
    }
    if (good) {
      metrics.count_watch(options.resource.plural);
      // Jitter, so that watches do not all start at the same time.
      good = watcher.watch(options.time + std::chrono::seconds(random() % (options.time.count() / 5 + 1)));
    }
    if (stop.stop_requested()) return;
    if (good) {
      if (!last_trouble.empty()) log_info("{} are watched again", options.resource.plural);
      last_trouble.clear();
      wait = kFirstPause;
      continue;
    }
    if (watcher.trouble() != last_trouble)
      log_warning("cannot watch {}: {}", options.resource.plural, watcher.trouble());
    last_trouble = watcher.trouble();
    if (watcher.progress()) wait = kFirstPause;
    const milliseconds asked = watcher.wait().value_or(std::chrono::seconds(0));
    wait_to_retry(std::max(asked, wait / 2 + milliseconds(random() % static_cast<unsigned>(wait.count()))), stop);
    wait = std::min(wait * 2, kLongestPause);
  }
}

}  // namespace lockstep::kube
