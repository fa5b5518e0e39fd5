// The operator's threads: watches that fill the cache, workers on a queue of jobs, leader election and probes.
#include <apps/operator/api/client.h>
#include <apps/operator/controller/cache.h>
#include <apps/operator/controller/metrics.h>
#include <apps/operator/controller/operator.h>
#include <apps/operator/controller/progress.h>
#include <apps/operator/controller/reconciler.h>
#include <apps/operator/controller/work_queue.h>
#include <apps/operator/decide/objects.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/this_host.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using Next = Reconciled::Next;

constexpr milliseconds kLeaseRequest(4000);
constexpr std::size_t kMostWatches = 6;

void pause(milliseconds time, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

class Operator {
 public:
  Operator(const OperatorOptions& options, std::stop_token stop)
      : options_(options), limit_(std::make_shared<RateLimit>(options.requests_per_second, options.burst)) {
    if (options_.lease.identity.empty()) {
      options_.lease.identity = host_name().value_or("operator") + "_" + random_token().substr(0, 8);
    }
    if (options_.lease.space.empty()) {
      options_.lease.space = options_.space.empty() ? options_.access.space : options_.space;
    }
    stop_from_outside_.emplace(stop, [this] { stop_.request_stop(); });
  }

  void run();

 private:
  ApiClient client(std::shared_ptr<RateLimit> limit = nullptr) {
    return ApiClient(options_.access, std::move(limit),
                     [this](std::string_view method, Outcome outcome) { metrics_.count_request(method, outcome); });
  }
  void find_gang_scheduler();
  void start_watches();
  void lead();
  void start_workers();
  void work();
  bool synced() const;
  ProbeAnswer answer(const std::string& path) const;

  OperatorOptions options_;
  std::stop_source stop_;
  std::optional<std::stop_callback<std::function<void()>>> stop_from_outside_;
  std::shared_ptr<RateLimit> limit_;
  Metrics metrics_;
  Cache cache_;
  WorkQueue queue_;
  Obstacles obstacles_;
  JobProgress progress_;
  GangScheduler gang_ = GangScheduler::none;
  std::array<std::atomic<bool>, kMostWatches> synced_{};  ///< one for each watch
  std::atomic<std::size_t> watches_{0};                   ///< 0: they have not started
  std::string lost_;
  // The last members, so that the threads end before the objects that they use are destroyed.
  std::vector<std::jthread> threads_;
};

/// Also checks whether the server is reachable.
void Operator::find_gang_scheduler() {
  ApiClient asker = client();
  const std::stop_callback cancel(stop_.get_token(), [&] { asker.cancel(); });
  milliseconds wait(200);
  for (bool said = false;;) {
    const Answer answer = asker.get("/apis");
    if (answer.ok()) {
      for (const auto& group : list_at(answer.object, "groups")) {
        const auto name = text_at(group, "name");
        if (name == volcano_pod_groups().group) gang_ = GangScheduler::volcano;
        if (name == scheduling_pod_groups().group && gang_ == GangScheduler::none) gang_ = GangScheduler::scheduling;
      }
      return;
    }
    if (answer.outcome == Outcome::unauthorized || answer.outcome == Outcome::forbidden) {
      fail(ErrorKind::environment, "operator", "the API server at {} does not accept the credentials of {}: {}",
           asker.server(), options_.access.origin, answer.text());
    }
    if (stop_.stop_requested()) return;
    if (!said) log_warning("no answer of the API server yet: {}", answer.text());
    said = true;
    pause(wait, stop_.get_token());
    wait = std::min(wait * 2, milliseconds(5000));
  }
}

void Operator::start_watches() {
  const std::string ours = kJobNameLabel;
  std::vector<WatchOptions> watches = {{lockstep_jobs(), options_.space, "", options_.watch_time}};
  for (const Resource* resource : {&pods(), &services(), &config_maps(), &secrets()}) {
    watches.push_back({*resource, options_.space, ours, options_.watch_time});
  }
  if (const Resource* groups = pod_groups_of(gang_))
    watches.push_back({*groups, options_.space, ours, options_.watch_time});
  watches_ = watches.size();
  for (std::size_t i = 0; i < watches.size(); ++i) {
    threads_.emplace_back([this, watch = watches[i], i] {
      watch_forever(
          client(), watch, cache_, metrics_, synced_.at(i), [this](const std::string& key) { queue_.add(key); },
          stop_.get_token());
    });
  }
}

bool Operator::synced() const {
  const auto count = static_cast<std::ptrdiff_t>(watches_.load());
  return count > 0 && std::all_of(synced_.begin(), synced_.begin() + count, [](const auto& one) { return one.load(); });
}

ProbeAnswer Operator::answer(const std::string& path) const {
  if (path == "/healthz") return {200, "ok\n"};
  if (path == "/readyz")
    return synced() ? ProbeAnswer{200, "ok\n"} : ProbeAnswer{503, "the caches are not filled yet\n"};
  if (path != "/metrics") return {404, "there are /healthz, /readyz and /metrics\n"};
  std::map<std::string, double> gauges = {{"lockstep_operator_queue_length", static_cast<double>(queue_.size())}};
  for (const Object& job : cache_.all(lockstep_jobs())) {
    auto phase = text_at(object_at(*job, "status"), "phase");
    if (phase.empty()) phase = "New";
    gauges[fmt::format("lockstep_operator_jobs{{phase=\"{}\"}}", phase)] += 1;
  }
  return {200, metrics_.text(gauges)};
}

void Operator::work() {
  ApiClient own = client(limit_);
  const std::stop_callback cancel(stop_.get_token(), [&] { own.cancel(); });
  // The Lease is renewed meanwhile.
  while (!synced() && !stop_.stop_requested()) pause(milliseconds(20), stop_.get_token());
  Reconciler reconciler(own, cache_, obstacles_, progress_, gang_, options_.lease.identity);
  while (const auto key = queue_.take(stop_.get_token())) {
    Reconciled result;
    try {
      result = reconciler.reconcile(*key, std::chrono::system_clock::now());
    } catch (const std::exception& error) {
      result = {Next::retry, {}, error.what()};
    }
    metrics_.decisions += 1;
    if (result.next == Next::retry) {
      metrics_.failures += 1;
      if (!stop_.stop_requested()) log_warning("{}: {}; it is tried again", *key, result.trouble);
      queue_.retry(*key, result.after);
    } else {
      queue_.forgive(*key);
      if (result.next == Next::at_once) queue_.add(*key);
      if (result.after) queue_.add_after(*key, *result.after);
    }
    queue_.done(*key);
  }
}

void Operator::start_workers() {
  metrics_.leads = true;
  for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
  if (options_.progress_time.count() == 0) return;
  threads_.emplace_back([this] {
    watch_progress(
        client(limit_), cache_, progress_, options_.progress_time, [this](const std::string& key) { queue_.add(key); },
        stop_.get_token());
  });
}

/// Returns when this operator must no longer act.
void Operator::lead() {
  ApiClient own = client();
  own.set_limit(kLeaseRequest);
  LeaseHolder lease(own, options_.lease);
  bool acts = false;
  std::string last_trouble;
  std::string last_other;
  while (!stop_.stop_requested()) {
    const bool holds = lease.try_once();
    if (lease.lost()) {
      lost_ = lease.trouble();
      break;
    }
    if (holds && !acts) {
      log_info("'{}' holds the Lease {}/{} and acts", options_.lease.identity, options_.lease.space,
               options_.lease.name);
      acts = true;
      start_workers();
    }
    if (!holds && lease.trouble().empty() && lease.other() != last_other) {
      last_other = lease.other();
      log_info("'{}' holds the Lease; this operator waits", last_other);
    }
    if (lease.trouble() != last_trouble && !lease.trouble().empty()) {
      log_warning("the Lease {}/{}: {}", options_.lease.space, options_.lease.name, lease.trouble());
    }
    last_trouble = lease.trouble();
    pause(options_.lease.retry, stop_.get_token());
  }
  stop_.request_stop();
  threads_.clear();  // no write after the Lease is released
  if (lost_.empty()) lease.release();
}

void Operator::run() {
  std::optional<ProbeServer> probes;
  if (options_.probes) {
    probes.emplace(options_.probe_host, options_.probe_port, [this](const std::string& path) { return answer(path); });
  }
  for (const auto& warning : options_.access.warnings) log_warning("{}", warning);
  log_info("operator for {} through {}",
           options_.space.empty() ? "all namespaces" : "the namespace '" + options_.space + "'",
           options_.access.origin);
  if (options_.on_start) options_.on_start(probes ? probes->port() : 0);
  find_gang_scheduler();
  start_watches();
  if (options_.elect_leader) {
    lead();
  } else {
    start_workers();
    while (!stop_.stop_requested()) pause(std::chrono::hours(1), stop_.get_token());
    threads_.clear();
  }
  if (!lost_.empty()) {
    fail(ErrorKind::peer_lost, "operator", "the Lease {}/{} is lost: {}", options_.lease.space, options_.lease.name,
         lost_);
  }
}

}  // namespace

void run_operator(const OperatorOptions& options, std::stop_token stop) { Operator(options, std::move(stop)).run(); }

}  // namespace lockstep::kube
