#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/store_host.h>
#include <lockstep/cluster/supervise.h>

#include <fmt/core.h>

#include <random>

namespace lockstep::cluster {
namespace {

std::string make_run_id() {
  std::random_device random;
  return fmt::format("lockstep-{:08x}{:08x}", random(), random());
}

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  const StoreHost store;
  const TemporaryFolder folder("lockstep-run");
  Job job;
  job.ranks = options.processes;
  job.master_port = store.port();
  job.run_id = make_run_id();
  job.folder = folder.path();
  return supervise(options, job);
}

}  // namespace lockstep::cluster
