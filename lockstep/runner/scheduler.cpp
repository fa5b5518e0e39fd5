// The scheduler of a job: server options from the cluster's settings, state in a folder or etcd, and the live page of
// the job.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/elastic/stay.h>
#include <lockstep/cluster/etcd/client.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/dashboard/server.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/membership/service/state_writer.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/runner/scheduler.h>
#include <lockstep/version.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
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

membership::ServerOptions options_of_server(const ClusterSettings& settings) {
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

/// The live page of the job of a scheduler.
class JobPage {
 public:
  explicit JobPage(const ClusterSettings& settings)
      : server_({dashboard::parse_page_address(*settings.dashboard, "cluster.dashboard (--dashboard)")},
                describe_job(settings)) {
    log_info("the live page of this job: {}", server_.address());
  }

  void look(const membership::Membership& membership, const std::deque<membership::LoggedDecision>& decisions) {
    auto facts = dashboard::look_at(membership, std::chrono::steady_clock::now());
    for (const auto& decision : decisions) {
      if (decision.at > looked_) facts.decisions.push_back(decision.text);
    }
    if (!decisions.empty()) looked_ = decisions.back().at;
    server_.show(std::move(facts));
  }

  /// The folder of the workers may be one of another host.
  void end(const dashboard::JobEnd& end) {
    const auto page = server_.end(end);
    if (page.work_dir.empty()) {
      log_info("the page of this job is not kept: no worker has reported a folder (system.work_dir)");
      return;
    }
    std::error_code ignored;
    if (!std::filesystem::is_directory(page.work_dir, ignored)) {
      log_warning("the page of this job is not kept: the workers' folder {} is not on this host", page.work_dir);
      return;
    }
    log_info("{}", dashboard::keep_page(page, std::filesystem::path(page.work_dir) / "dashboard.html"));
  }

 private:
  static dashboard::JobDescription describe_job(const ClusterSettings& settings) {
    auto job = dashboard::describe_job_here();
    job.name = "the job of the scheduler at " + host_and_port(settings.host, settings.port);
    job.program = settings.evidence;
    job.world = settings.workers + settings.servers;
    job.has_output = false;
    return job;
  }

  membership::Time looked_;
  dashboard::PageServer server_;
};

/// Exit code and reason.
std::pair<int, std::string> outcome_of(const membership::RunEnd& end, int workers) {
  if (end.signal != 0) {
    return {128 + end.signal,
            fmt::format("signal {} ends the scheduler; workers that train go on without it", end.signal)};
  }
  if (end.ending.ok) return {cluster::kOk, fmt::format("all {} worker(s) are done", workers)};
  return {cluster::kFailed, fmt::format("the job failed: {}", end.ending.reason)};
}

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
  auto server_options = options_of_server(*settings);
  std::optional<JobPage> page;
  if (settings->dashboard) {
    server_options.on_look = [&page](const auto& membership, const auto& decisions) {
      page->look(membership, decisions);
    };
  }
  membership::Server server(std::move(server_options));
  if (settings->dashboard) page.emplace(*settings);
  log_info("the scheduler listens on {}:{} for {} worker(s), TLS {}, recovery {} ({})", settings->host, server.port(),
           settings->workers, settings->enable_ssl ? "on" : "off", settings->recovery ? "on" : "off",
           settings->evidence);
  const auto end = server.run({SIGTERM, SIGINT, SIGHUP});
  const auto [exit_code, text] = outcome_of(end, settings->workers);
  write_log(exit_code == cluster::kOk ? LogLevel::info : end.signal != 0 ? LogLevel::warning : LogLevel::error, text);
  if (page) page->end({end.signal != 0 ? std::nullopt : std::optional(exit_code), text});
  return exit_code;
}

}  // namespace lockstep::runner
