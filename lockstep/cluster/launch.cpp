// A launch on one machine: fork server, stores and job service, each started only where it is needed.
#include <lockstep/cluster/c10d_store_host.h>
#include <lockstep/cluster/fork_server/can_fork.h>
#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/live_page.h>
#include <lockstep/cluster/rank_services.h>

#include <utility>

namespace lockstep::cluster {

LaunchResult launch(const LaunchOptions& options) {
  ForkAttempt forks(options);  // loads the program while the rest is prepared
  std::optional<C10dStoreHost> store;
  std::optional<LockstepStoreHost> own_store;
  std::optional<JobService> service;
  LaunchWays ways;
  ways.host = [&](int ranks, std::shared_ptr<SharedLosses> losses) {
    Hosted hosted{0, own_store.emplace().address()};
    hosted.store_port = may_need_c10d_store(options) ? store.emplace().port() : own_store->port();
    if (ranks > 0) hosted.service = service.emplace("127.0.0.1", ranks, std::move(losses)).address();
    return hosted;
  };
  ways.fork = [&](const std::vector<ChildOptions>& ranks) { return forks.fork(options, ranks); };
  ways.helpers = [&] {
    auto helpers = forks.helpers();
    if (store) helpers.push_back(store->helper());
    return helpers;
  };
  ways.watch = watch_with_page(options);
  return launch_ranks(options, ways);
}

}  // namespace lockstep::cluster
