#include <lockstep/cluster/fork_server/fork_attempt.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/store_host.h>

namespace lockstep::cluster {

LaunchResult launch(const LaunchOptions& options) {
  ForkAttempt forks(options);  // loads the program while the rest is prepared
  std::optional<StoreHost> store;
  return launch_ranks(
      options, {[&] { return store.emplace().port(); }, [&](const Job& job) { return forks.fork(options, job); }});
}

}  // namespace lockstep::cluster
