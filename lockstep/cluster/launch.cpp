#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/rank_stream.h>
#include <lockstep/cluster/store_host.h>
#include <lockstep/cluster/supervise.h>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <random>

namespace lockstep::cluster {
namespace {

std::string make_run_id() {
  std::random_device random;
  return fmt::format("lockstep-{:08x}{:08x}", random(), random());
}

/// The width of the terminal that shows the ranks' lines, without the prefix; 0 when there is none.
int columns_for_ranks(const LaunchOptions& options) {
  winsize size{};
  if (::isatty(options.out) != 1 || ::ioctl(options.out, TIOCGWINSZ, &size) != 0) return 0;
  const auto prefix = options.prefix ? prefix_of(options.processes - 1).size() : 0;
  return std::max(0, static_cast<int>(size.ws_col) - static_cast<int>(prefix));
}

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  const StoreHost store;
  const TemporaryFolder folder("lockstep-run");
  Job job;
  job.ranks = options.processes;
  job.master_port = store.port();
  job.run_id = make_run_id();
  job.columns = columns_for_ranks(options);
  job.folder = folder.path();
  return supervise(options, job);
}

}  // namespace lockstep::cluster
