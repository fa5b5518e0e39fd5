// `lockstep scheduler`: where the workers of a job without a launcher meet.
#include <lockstep/base/config.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/cli/cluster_config.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/scheduler.h>
#include <lockstep/cli/state_place.h>
#include <lockstep/cluster/elastic/open_files.h>
#include <lockstep/scheduler/security.h>
#include <lockstep/scheduler/server.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr const char* kSchedulerFooter =
    "The workers are 'lockstep train' (or any program that calls lockstep::init) with MS_ROLE=MS_WORKER and the same\n"
    "MS_SCHED_HOST, MS_SCHED_PORT and MS_WORKER_NUM; who starts first does not matter. 'lockstep train' with\n"
    "MS_ROLE=MS_SCHED is this command. It ends with the job. docs/scheduler.md tells more.\n"
    "\n"
    "Its port also answers 'lockstep status' and 'curl http://HOST:PORT/v1/status'.\n"
    "\n"
    "Exit code: 0 when all workers are done, 1 when the job failed, 2 when the command line, the configuration or the\n"
    "environment is wrong, 128 + N when signal N ended it.\n"
    "\n"
    "Examples:\n"
    "  MS_WORKER_NUM=8 MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=6667 lockstep scheduler\n"
    "  lockstep scheduler cluster.worker_num=8 cluster.sched_host=127.0.0.1 cluster.sched_port=6667\n"
    "  lockstep scheduler --config run.yaml                    what its section 'cluster' says";

// What connection_num says, or else enough; each worker has one, and the status another.
std::size_t most_connections(const ClusterSettings& settings, const scheduler::Tls& tls) {
  const int needed = settings.workers + 1;
  if (!tls.context) return static_cast<std::size_t>(std::max(10000, 2 * needed));
  if (tls.connections < needed) {
    log_warning("connection_num is {} in {}, and {} workers and a status need {}: that many are allowed",
                tls.connections, settings.config_file, settings.workers, needed);
  }
  return static_cast<std::size_t>(std::max(tls.connections, needed));
}

scheduler::ServerOptions server_options(const ClusterSettings& settings) {
  scheduler::ServerOptions options;
  options.host = settings.host;
  options.port = settings.port;
  options.workers = settings.workers;
  options.recovery = settings.recovery;
  options.limits.silence = scheduler::milliseconds_of(settings.node_timeout_s);
  options.limits.absence = scheduler::milliseconds_of(settings.topo_timeout_s);
  options.limits.hang = scheduler::milliseconds_of(settings.hang_timeout_s);
  if (settings.recovery) options.state = state_place(settings.recovery_path);
  options.secret = scheduler::read_secret(settings);
  scheduler::Tls tls = scheduler::make_server_tls(settings);
  options.most_connections = most_connections(settings, tls);
  options.tls = std::move(tls.context);
  options.check_of_certificates = std::move(tls.check_of_certificates);
  options.version = LOCKSTEP_VERSION;
  return options;
}

// The log of a process that does nothing else goes to stderr.
class ConsoleLog {
 public:
  ConsoleLog() { start_logging({}); }
  ~ConsoleLog() { stop_logging(); }
  ConsoleLog(const ConsoleLog&) = delete;
  ConsoleLog& operator=(const ConsoleLog&) = delete;
};

}  // namespace

bool is_scheduler(std::string_view launcher, const ClusterOptions& options) {
  if (launcher != "auto" && launcher != "scheduler") return false;
  const auto settings = find_cluster(current_environment(), options);
  return settings && settings->role == ClusterRole::scheduler;
}

int run_scheduler(const ClusterOptions& options) {
  const auto settings = find_cluster(current_environment(), options, ClusterRole::scheduler);
  scheduler::require_secure(*settings);
  const ConsoleLog log;
  cluster::elastic::raise_open_file_limit();
  scheduler::Server server(server_options(*settings));
  log_info("the scheduler listens on {}:{} for {} worker(s), TLS {}, recovery {} ({})", settings->host, server.port(),
           settings->workers, settings->enable_ssl ? "on" : "off", settings->recovery ? "on" : "off",
           settings->evidence);
  const auto end = server.run({SIGTERM, SIGINT, SIGHUP});
  if (end.signal != 0) {
    log_warning("signal {} ends the scheduler; workers that train go on without it", end.signal);
    return 128 + end.signal;
  }
  if (end.ending.ok) {
    log_info("all {} worker(s) are done", settings->workers);
    return kOk;
  }
  log_error("the job failed: {}", end.ending.reason);
  return kFailed;
}

void add_scheduler(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("scheduler", "Bring the workers of a job together that has no launcher");
  const auto config = add_cluster_config(*command);
  command->footer(kSchedulerFooter);
  command->callback([=, &chosen] { chosen = [=] { return run_scheduler(read_cluster_options(*config)); }; });
}

}  // namespace lockstep::cli
