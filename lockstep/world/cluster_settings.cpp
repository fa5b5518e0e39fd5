// The settings of a job with a scheduler: their keys, and the variables such as MS_ROLE that have priority over them.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/world/cluster_settings.h>
#include <lockstep/world/launcher_variables.h>

#include <fmt/ranges.h>

#include <cmath>
#include <limits>

namespace lockstep {

void describe(ConfigFields& fields, ClusterOptions& c) {
  fields.field("role", c.role, one_of({"MS_SCHED", "MS_WORKER", "MS_PSERVER"}),
               "MS_ROLE: the role of this process; null: no scheduler");
  fields.field("worker_num", c.worker_num, between(1, 1 << 20), "MS_WORKER_NUM: workers of the whole job");
  fields.field("server_num", c.server_num, at_least(0),
               "MS_SERVER_NUM: parameter servers, for parallel.mode parameter_server");
  fields.field("sched_host", c.sched_host, anything(), "MS_SCHED_HOST: the scheduler's address");
  fields.field("sched_port", c.sched_port, between(1024, 65535), "MS_SCHED_PORT: the scheduler's port");
  fields.field("node_id", c.node_id, anything(), "MS_NODE_ID: a worker's own name; null: a random one");
  fields.field("enable_recovery", c.enable_recovery, anything(),
               "MS_ENABLE_RECOVERY: the scheduler keeps the job's state, and lost workers may be replaced");
  fields.field("recovery_path", c.recovery_path, anything(),
               "MS_RECOVERY_PATH: the folder of that state, or etcd://HOST:PORT/KEY");
  fields.field("node_timeout_s", c.node_timeout_s, between(1, 1e6),
               "MS_NODE_TIMEOUT: seconds without a heartbeat after which a worker is lost");
  fields.field("topo_timeout_s", c.topo_timeout_s, between(1, 1e6),
               "MS_TOPO_TIMEOUT: seconds the scheduler waits for workers to register");
  fields.field("hang_timeout_s", c.hang_timeout_s, between(1, 1e6),
               "seconds within which a worker must notice that the others cannot continue; later it counts as hanging");
  fields.field("enable_ssl", c.enable_ssl, anything(), "TLS between workers and scheduler, each with a certificate");
  fields.field("config_file_path", c.config_file_path, anything(), "JSON file that names the certificates");
  fields.field("server_password", c.server_password, hidden(), "password of the scheduler's .p12 file");
  fields.field("client_password", c.client_password, hidden(), "password of the workers' .p12 file");
  fields.field("server_password_file", c.server_password_file, anything(), "a file with that password instead");
  fields.field("client_password_file", c.client_password_file, anything(), "a file with that password instead");
  fields.field(
      "secret_file", c.secret_file, anything(),
      "a file with a secret that all processes of the job share; LOCKSTEP_CLUSTER_SECRET is the secret itself");
  fields.field("allow_insecure", c.allow_insecure, anything(),
               "allow connections to the scheduler from other machines without TLS");
  fields.field(
      "dashboard", c.dashboard, anything(),
      "the scheduler serves the live page of the job here: PORT or HOST:PORT, 0 is a free port; null: it does not");
  if (fields.purpose() == ConfigFields::Purpose::reading && c.dashboard && !parse_listening_address(*c.dashboard)) {
    fields.refuse("dashboard", fmt::format("is '{}', which is neither PORT nor HOST:PORT", cut_text(*c.dashboard)));
  }
}

namespace {

constexpr std::int64_t kMostProcesses = 1 << 20;
constexpr std::int64_t kLowestPort = 1024;
constexpr std::int64_t kLastPort = 65535;
constexpr double kMostSeconds = 1e6;

// Lookup of settings: environment variables first, then options. Records which of them were used, as evidence.
class Sources {
 public:
  explicit Sources(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const char* variable, const char* key, const std::optional<std::string>& option) {
    if (auto found = find(environment_, variable); found && !found->empty()) return note(variable, *found);
    if (option && !option->empty()) return note(key, *option);
    return std::nullopt;
  }

  std::optional<std::int64_t> integer(const char* variable, const char* key, const std::optional<std::int64_t>& option,
                                      std::int64_t low, std::int64_t high) {
    if (const auto found = find_integer(environment_, variable, low, high)) {
      note(variable, fmt::to_string(*found));
      return found;
    }
    if (option && (*option < low || *option > high)) {
      fail(ErrorKind::config, "cluster", "{} is {}; it must be from {} to {}", key, *option, low, high);
    }
    if (option) note(key, fmt::to_string(*option));
    return option;
  }

  bool flag(const char* variable, bool option) const {
    const auto found = find(environment_, variable);
    if (!found || found->empty()) return option;
    const auto value = parse_bool(*found);
    if (!value) fail(ErrorKind::environment, "cluster", "{}='{}' is neither 1 nor 0", variable, cut_text(*found));
    return *value;
  }

  double seconds(const char* variable, double option) const {
    const auto found = find(environment_, variable);
    if (!found) return option;
    const auto value = parse_number(*found);
    if (!value || *value < 1 || *value > kMostSeconds) {
      fail(ErrorKind::environment, "cluster", "{}='{}' is no number of seconds from 1 to {:.0f}", variable,
           cut_text(*found), kMostSeconds);
    }
    return *value;
  }

  // A password or secret, which is not recorded as evidence.
  HiddenText hidden(const char* variable, const char* file_variable, const std::optional<std::string>& option,
                    const std::optional<std::string>& file_option) const {
    HiddenText hidden;
    hidden.text = find(environment_, variable);
    hidden.file = find(environment_, file_variable);
    if (hidden.text && hidden.file) {
      fail(ErrorKind::environment, "cluster", "{} and {} are both set; set one of them", variable, file_variable);
    }
    if (!hidden.text && !hidden.file) {
      hidden = {option, file_option};
    }
    return hidden;
  }

  const std::string& evidence() const { return evidence_; }

 private:
  std::string note(const char* name, const std::string& value) {
    evidence_ += fmt::format("{}{}={}", evidence_.empty() ? "" : " ", name, value);
    return value;
  }

  const Environment& environment_;
  std::string evidence_;
};

ClusterRole role_of(const std::string& text, bool with_servers) {
  if (text == "MS_SCHED") return ClusterRole::scheduler;
  if (text == "MS_WORKER") return ClusterRole::worker;
  if (text == "MS_PSERVER" || text == "MS_SERVER") {
    if (with_servers) return ClusterRole::server;
    fail(ErrorKind::environment, "cluster",
         "MS_ROLE={} is a parameter server, which has no part in data parallel training; start the scheduler and the "
         "workers alone, with MS_SERVER_NUM=0, or set parallel.mode=parameter_server",
         text);
  }
  fail(ErrorKind::environment, "cluster", "MS_ROLE='{}' is none of MS_SCHED and MS_WORKER{}", cut_text(text),
       with_servers ? " and MS_PSERVER" : "");
}

void require_all(const std::optional<std::int64_t>& workers, const std::optional<std::string>& host,
                 const std::optional<std::int64_t>& port, const std::string& evidence,
                 const std::string& note_of_port) {
  std::vector<std::string> missing;
  if (!workers) missing.emplace_back("MS_WORKER_NUM (or cluster.worker_num): how many workers the job has");
  if (!host) missing.emplace_back("MS_SCHED_HOST (or cluster.sched_host): the scheduler's address");
  if (!port) missing.push_back("MS_SCHED_PORT (or cluster.sched_port): the scheduler's port" + note_of_port);
  if (missing.empty()) return;
  fail(ErrorKind::environment, "cluster", "{} for a job with a scheduler; set {}",
       evidence.empty() ? "nothing is set" : evidence + " is not enough", fmt::join(missing, ", and "));
}

void check_recovery(const ClusterSettings& settings) {
  if (!settings.recovery) return;
  if (settings.recovery_path.empty()) {
    fail(
        ErrorKind::environment, "cluster",
        "MS_ENABLE_RECOVERY is on and the recovery path is empty; set MS_RECOVERY_PATH (or cluster.recovery_path) to a "
        "folder that outlives the processes, or to a key of an etcd (etcd://HOST:PORT/KEY)");
  }
  if (settings.role != ClusterRole::scheduler && settings.node_id.empty()) {
    const auto* name = settings.role == ClusterRole::server ? "server" : "worker";
    fail(ErrorKind::environment, "cluster",
         "MS_ENABLE_RECOVERY is on and this {0} has no MS_NODE_ID (or cluster.node_id); give each {0} a name of its "
         "own, e.g. {0}_0, by which the scheduler recognizes it after a restart",
         name);
  }
}

void check_security(const ClusterSettings& settings) {
  if (settings.enable_ssl && settings.config_file.empty()) {
    fail(ErrorKind::environment, "cluster",
         "enable_ssl is on and there is no config_file_path (LOCKSTEP_CLUSTER_CONFIG, cluster.config_file_path), the "
         "JSON file that names the certificates; 'lockstep certs init DIR' makes one");
  }
}

}  // namespace

CertificateSettings find_certificates(const Environment& environment, const ClusterOptions& options) {
  Sources sources(environment);
  return {sources.text("LOCKSTEP_CLUSTER_CONFIG", "cluster.config_file_path", options.config_file_path).value_or(""),
          sources.hidden("LOCKSTEP_SERVER_PASSWORD", "LOCKSTEP_SERVER_PASSWORD_FILE", options.server_password,
                         options.server_password_file),
          sources.hidden("LOCKSTEP_CLIENT_PASSWORD", "LOCKSTEP_CLIENT_PASSWORD_FILE", options.client_password,
                         options.client_password_file)};
}

std::optional<ClusterSettings> find_cluster(const Environment& environment, const ClusterOptions& options,
                                            std::optional<ClusterRole> role) {
  Sources sources(environment);
  const auto role_text = sources.text("MS_ROLE", "cluster.role", options.role);
  if (!role_text && !role) return std::nullopt;
  ClusterSettings settings;
  settings.role = role ? *role : role_of(*role_text, options.with_servers);
  const auto workers = sources.integer("MS_WORKER_NUM", "cluster.worker_num", options.worker_num, 1, kMostProcesses);
  const auto servers = sources.integer("MS_SERVER_NUM", "cluster.server_num", options.server_num, 0, kMostProcesses);
  const auto host = sources.text("MS_SCHED_HOST", "cluster.sched_host", options.sched_host);
  const auto port = sources.integer("MS_SCHED_PORT", "cluster.sched_port", options.sched_port, kLowestPort, kLastPort);
  settings.node_id = sources.text("MS_NODE_ID", "cluster.node_id", options.node_id).value_or("");
  settings.evidence = sources.evidence();
  require_all(workers, host, port, settings.evidence, detail::note_of_service(environment, "MS_SCHED_PORT"));
  if (options.with_servers) settings.servers = static_cast<int>(servers.value_or(0));
  if (settings.role == ClusterRole::server && settings.servers == 0) {
    fail(ErrorKind::environment, "cluster",
         "{} makes this process a parameter server; set MS_SERVER_NUM (or cluster.server_num) to the number of them on "
         "all processes",
         settings.evidence);
  }
  if (servers.value_or(0) > 0 && !options.with_servers && !role) {
    log_warning("MS_SERVER_NUM={} has no effect: parameter servers have no part in data parallel training", *servers);
  }
  settings.workers = static_cast<int>(*workers);
  settings.host = *host;
  settings.port = static_cast<std::uint16_t>(*port);
  settings.recovery = sources.flag("MS_ENABLE_RECOVERY", options.enable_recovery);
  settings.recovery_path =
      sources.text("MS_RECOVERY_PATH", "cluster.recovery_path", options.recovery_path).value_or("");
  settings.node_timeout_s = sources.seconds("MS_NODE_TIMEOUT", options.node_timeout_s);
  settings.topo_timeout_s = sources.seconds("MS_TOPO_TIMEOUT", options.topo_timeout_s);
  settings.hang_timeout_s = sources.seconds("LOCKSTEP_HANG_TIMEOUT_S", options.hang_timeout_s);
  settings.enable_ssl = sources.flag("LOCKSTEP_ENABLE_SSL", options.enable_ssl);
  auto certificates = find_certificates(environment, options);
  settings.config_file = std::move(certificates.config_file);
  settings.server_password = std::move(certificates.server_password);
  settings.client_password = std::move(certificates.client_password);
  settings.secret =
      sources.hidden("LOCKSTEP_CLUSTER_SECRET", "LOCKSTEP_CLUSTER_SECRET_FILE", std::nullopt, options.secret_file);
  settings.allow_insecure = sources.flag("LOCKSTEP_ALLOW_INSECURE", options.allow_insecure);
  settings.dashboard = options.dashboard;
  check_recovery(settings);
  check_security(settings);
  return settings;
}

World detail::world_of_worker(const ClusterSettings& settings, const Environment& environment) {
  if (settings.role == ClusterRole::scheduler) {
    fail(ErrorKind::environment, "cluster",
         "{} makes this process the scheduler, which trains nothing; start 'lockstep scheduler' (or 'lockstep train', "
         "which becomes one) in its place",
         settings.evidence);
  }
  World world;
  world.rank = -1;
  world.size = settings.workers + settings.servers;
  world.local_size = 0;
  world.launcher = "scheduler";
  world.evidence = settings.evidence;
  world.rendezvous = Rendezvous::scheduler;
  world.master_addr = settings.host;
  world.master_port = settings.port;
  if (const auto device = find_integer(environment, "DEVICE_ID", 0, std::numeric_limits<int>::max())) {
    world.device = static_cast<int>(*device);
  }
  return world;
}

void detail::refuse_half_a_cluster(const Environment& environment) {
  for (const auto* name : {"MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT"}) {
    const auto value = find(environment, name);
    if (!value || value->empty()) continue;
    fail(ErrorKind::environment, "cluster",
         "{}={} is set and MS_ROLE is not: set MS_ROLE to MS_WORKER or MS_SCHED, or unset the other, or use --launcher "
         "none",
         name, cut_text(*value));
  }
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1e3));
}

}  // namespace lockstep
