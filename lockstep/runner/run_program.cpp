// The role of a process, and the choice between a dry run, which prints it and the plan, and an action of a Trainer.
// In the role of a scheduler: server options from the cluster's settings, state in a folder or etcd.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/cluster/elastic/stay.h>
#include <lockstep/cluster/etcd/client.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/membership/service/state_writer.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/run_group.h>
#include <lockstep/version.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

namespace lockstep::runner {
namespace {

using cluster::etcd::Entry;

// The scheduler cannot start without the storage. Later the job continues while the storage is unavailable.
constexpr auto kLoad = std::chrono::seconds(60);
constexpr auto kSave = std::chrono::seconds(5);

/// The storage that MS_RECOVERY_PATH names: a folder, or a key of an etcd. Error(environment) for an invalid address;
/// Error(io) for a folder that cannot be made.
membership::StatePlace state_place(const std::string& recovery_path) {
  if (!cluster::etcd::is_url(recovery_path)) {
    return membership::state_in_file(std::filesystem::path(recovery_path) / "scheduler.json");
  }
  const auto url = cluster::etcd::parse_url(recovery_path, "MS_RECOVERY_PATH");
  const auto entry = std::make_shared<Entry>(url.address, url.key);
  return {entry->describe(), [entry] { return entry->read(kLoad); },
          [entry](const std::string& text) {
            entry->write(text, kSave);
            return true;
          }};
}

// connection_num, or else a sufficient number: one connection for each worker, and one for the status.
std::size_t most_connections(const ClusterSettings& settings, const net::Tls& tls) {
  const int needed = settings.workers + 1;
  if (!tls.context) return static_cast<std::size_t>(std::max(10000, 2 * needed));
  if (tls.connections < needed) {
    log_warning("connection_num is {} in {}, and {} workers and a status need {}: that many are allowed",
                tls.connections, settings.config_file, settings.workers, needed);
  }
  return static_cast<std::size_t>(std::max(tls.connections, needed));
}

membership::ServerOptions server_options(const ClusterSettings& settings) {
  membership::ServerOptions options;
  options.host = settings.host;
  options.port = settings.port;
  options.workers = settings.workers;
  options.recovery = settings.recovery;
  options.limits.heartbeat_limit = milliseconds_of(settings.node_timeout_s);
  options.limits.absence = milliseconds_of(settings.topo_timeout_s);
  options.limits.hang = milliseconds_of(settings.hang_timeout_s);
  if (settings.recovery) options.state = state_place(settings.recovery_path);
  options.secret = net::read_secret(settings);
  net::Tls tls = net::make_service_tls(settings);
  options.most_connections = most_connections(settings, tls);
  options.tls = std::move(tls.context);
  options.check_of_certificates = std::move(tls.check_of_certificates);
  options.version = version();
  return options;
}

// A process that is only a scheduler logs to stderr.
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
  net::require_secure(*settings);
  const ConsoleLog log;
  cluster::elastic::raise_open_file_limit();
  membership::Server server(server_options(*settings));
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
    return cluster::kOk;
  }
  log_error("the job failed: {}", end.ending.reason);
  return cluster::kFailed;
}

namespace {

StartOptions start_options(const train::ResolvedRun& config, const ProgramStart& start) {
  StartOptions options;
  options.launcher = start.launcher;
  options.nodes = train::node_list_of(config.parallel);
  options.arguments = start.init;
  options.devices_per_node = options.nodes.devices_per_node;
  options.cluster = train::cluster_of(config);
  return options;
}

void print_dry_run(const std::string& process, const train::ResolvedRun& given, const train::Program& parts,
                   int ranks) {
  fmt::print("{}\n\n{}\n", process, train::describe_run(given, parts));
  if (ranks <= 0) return;
  const auto config = train::resolved_for(parts, given);
  const auto program = train::complete_program(parts, config);
  if (train::is_auto_mode(config.parallel)) {
    fmt::print("\n{}", train::describe_plan(config, program, ranks));
  } else {
    train::with_checked_strategies(config, program, ranks);  // it throws the same errors as the run
  }
}

}  // namespace

Start find_start(const train::ResolvedRun& config, const ProgramStart& start) {
  return detect_start(start_options(config, start));
}

std::string conclusion(const Start& start) { return start.ranks > 1 ? describe(start) : describe(start.world); }

void just_train(Trainer& trainer) { trainer.train(); }

int run_program(const train::ResolvedRun& config, std::function<train::Program()> make, const ProgramStart& start,
                const TrainerAction& act) {
  if (!start.dry_run) {
    Trainer trainer(std::move(make), config, start);
    act(trainer);
    return trainer.exit_code();
  }
  if (is_scheduler(start.launcher, train::cluster_of(config))) {
    print_dry_run("the scheduler of a job", config, make(), 0);
    return cluster::kOk;
  }
  const Start found = find_start(config, start);
  if (found.world.rank > 0) return cluster::kOk;
  try {
    train::require_world_fits(config, found.world);
    print_dry_run(conclusion(found), config, make(), found.world.size);
  } catch (const Error& error) {
    throw train::with_place(error, config.given);
  }
  return cluster::kOk;
}

}  // namespace lockstep::runner
