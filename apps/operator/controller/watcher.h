// A watcher that keeps the objects of one kind in the cache, and reports the jobs that have changed.
#pragma once

#include <apps/operator/api/client.h>
#include <apps/operator/api/resource.h>
#include <apps/operator/controller/cache.h>
#include <apps/operator/controller/metrics.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

namespace lockstep::kube {

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
