// The launch of a node's ranks: rendezvous, log folder, processes, supervision, and the error file passed on.
#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/rank_start.h>

#include <fmt/core.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <random>
#include <utility>

namespace lockstep::cluster {
namespace {

std::string make_run_id() {
  std::random_device random;
  return fmt::format("lockstep-{:08x}{:08x}", random(), random());
}

/// Whether the ranks have a rendezvous without a store of the launcher.
bool has_place_to_meet(const World& world) {
  return world.rendezvous == Rendezvous::file || (world.rendezvous == Rendezvous::tcp && world.master_port != 0);
}

/// Ranks on other nodes have no way to get the port of a store that is opened here.
void require_all_here(const World& first, int processes) {
  if (first.size == processes) return;
  fail(ErrorKind::invalid_argument, "launch",
       "{} of {} ranks must be started here, but the rendezvous of all ranks is not given; give the address and port "
       "of rank 0",
       processes, first.size);
}

void meet_at_given_place(const World& first, Launch& job) {
  job.first_rank = first.rank;
  job.world_size = first.size;
  job.hosts_store = false;
  job.store_path = first.store_path;
  if (first.rendezvous != Rendezvous::tcp) return;
  job.master_addr = first.master_addr;
  job.master_port = first.master_port;
}

int last_rank_of(const LaunchOptions& options) {
  return (options.first_rank ? options.first_rank->rank : 0) + options.processes - 1;
}

}  // namespace

LaunchResult launch_ranks(const LaunchOptions& options, const LaunchWays& ways) {
  Launch job;
  job.ranks = options.processes;
  Replacing replacing;
  replacing.allowed = [left = options.replacements]() mutable { return left-- > 0; };
  replacing.fork = [&](const ChildOptions& rank) { return ways.fork({rank}); };
  if (options.first_rank && has_place_to_meet(*options.first_rank)) {
    meet_at_given_place(*options.first_rank, job);
  } else {
    if (options.first_rank) require_all_here(*options.first_rank, options.processes);
    const bool has_files = options.output.log_dir != "/dev/null";  // where ranks note that they can be replaced
    const bool offers = options.replacements > 0 && options.processes > 1 && has_files;
    const int replaceable = offers ? options.processes : 0;
    auto losses = std::make_shared<SharedLosses>();
    const Hosted hosted = ways.host(replaceable, losses);
    job.master_port = hosted.store_port;
    job.own_store = hosted.own_store;
    job.service = hosted.service;
    if (job.service) replacing.losses = std::move(losses);
  }
  job.run_id = options.run_id.empty() ? make_run_id() : options.run_id;
  job.columns = columns_for_ranks(options, last_rank_of(options));
  job.role = options.prefix.role;
  job.virtual_local_rank = options.virtual_local_rank;
  const LogFolder logs(options.output, options.run_id.empty() ? "none" : options.run_id);  // torchrun's default name
  job.folder = logs.attempt(0);
  if (options.output.log_dir.empty() && logs.stays()) {
    ::dprintf(options.err, "lockstep run: logs: %s\n", logs.path().c_str());
  }
  auto forked = ways.fork(prepare_ranks(options, job));
  auto helpers = ways.helpers ? ways.helpers() : std::vector<Helper>();
  const auto watching = ways.watch ? ways.watch(job) : Watching();
  LaunchResult result = supervise(options, job, std::move(forked), std::move(replacing), std::move(helpers), watching);
  if (result.first_failed) publish_root_cause(result, job, logs, options.environment);
  if (watching.ended) watching.ended(result, logs);
  return result;
}

void publish_root_cause(LaunchResult& result, const Launch& job, const LogFolder& logs,
                        const Environment& environment) {
  const auto first = std::find_if(result.ends.begin(), result.ends.end(),
                                  [&](const RankEnd& end) { return end.rank == result.first_failed; });
  if (first != result.ends.end()) {
    pass_on_failure(error_file_of(job, first->rank - job.first_rank), first->status, result.report, environment);
  } else {
    pass_on_failure({}, {result.exit_code, 0}, result.report, environment);
  }
  if (logs.stays()) result.report += fmt::format("  logs: {}\n", logs.path().string());
}

int columns_for_ranks(const LaunchOptions& options, int last_rank) {
  winsize size{};
  const bool shown = is_terminal_of_session(options.out, options.environment);
  if (!shown || ::ioctl(options.out, TIOCGWINSZ, &size) != 0) return 0;
  const auto prefix = options.prefix.of(last_rank, options.processes - 1).size();
  return std::max(0, static_cast<int>(size.ws_col) - static_cast<int>(prefix));
}

}  // namespace lockstep::cluster
