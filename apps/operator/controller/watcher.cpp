// A list-and-watch loop for one kind of object, with jittered watch times and pauses that double.
#include <apps/operator/controller/watcher.h>
#include <apps/operator/job/json_fields.h>
#include <lockstep/base/log.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

namespace lockstep::kube {
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
