// `lockstep scheduler` and `lockstep status`: the rendezvous of the workers of a job without a launcher, and the state
// of a job, from its scheduler or from the launcher that runs its service.
#include <fmt/format.h>
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cli/command.h>
#include <lockstep/cluster/elastic/node_service.h>
#include <lockstep/cluster/etcd/client.h>
#include <lockstep/cluster/last_calls.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/membership/service/status.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/runner/scheduler.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/world/cluster_settings.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kSchedulerFooter =
    "The workers are 'lockstep train' (or any program that calls lockstep::init) with MS_ROLE=MS_WORKER and the same\n"
    "MS_SCHED_HOST, MS_SCHED_PORT and MS_WORKER_NUM; they may start in any order. 'lockstep train' with\n"
    "MS_ROLE=MS_SCHED is this command. It ends with the job. docs/scheduler.md describes it.\n"
    "\n"
    "Its port also answers 'lockstep status' and 'curl http://HOST:PORT/v1/status'.\n"
    "\n"
    "Exit code: 0 when all workers are done, 1 when the job failed, 2 when the command line, the configuration or the\n"
    "environment is wrong, 128 + N when signal N ended it.\n"
    "\n"
    "Examples:\n"
    "  MS_WORKER_NUM=8 MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=6667 lockstep scheduler\n"
    "  lockstep scheduler cluster.worker_num=8 cluster.sched_host=127.0.0.1 cluster.sched_port=6667\n"
    "  lockstep scheduler --config run.yaml                    with the settings of its section 'cluster'";

constexpr const char* kStatusFooter =
    "Reads the status of the scheduler at MS_SCHED_HOST and MS_SCHED_PORT, or at the address in the section 'cluster'\n"
    "of --config; with --rdzv-endpoint, of the launchers of `lockstep run` that meet there. With TLS it shows this\n"
    "machine's client certificate, as a worker does.\n"
    "\n"
    "With --calls FOLDER it reads the logs of `lockstep run` on this machine instead (--log-dir; without FOLDER, of\n"
    "launchers without --log-dir that run now): the first collective that not all ranks have made, which ranks are\n"
    "missing from it and what they did last, and the last calls of each rank. That works while a job hangs, and after\n"
    "it has ended.\n"
    "\n"
    "Exit code: 0 when the service answered, 1 when it did not, 2 when its address is not given.\n"
    "\n"
    "Examples:\n"
    "  MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=6667 lockstep status\n"
    "  lockstep status --rdzv-endpoint host0:29400\n"
    "  lockstep status --calls logs\n"
    "  lockstep status --json cluster.sched_host=127.0.0.1 cluster.sched_port=6667";

/// The options of commands that read only the section `cluster` of a configuration.
struct ClusterConfig {
  std::string file;  ///< empty: no file
  std::vector<std::string> overrides;
};

struct OnlyCluster {
  ClusterOptions cluster;
};

void describe(ConfigFields& fields, OnlyCluster& c) {
  fields.section("cluster", c.cluster, "a job whose workers meet through a scheduler");
}

/// Adds --config FILE and KEY=VALUE.
std::shared_ptr<ClusterConfig> add_cluster_config(CLI::App& command) {
  auto config = std::make_shared<ClusterConfig>();
  command.add_option("--config", config->file, "A run's YAML file; its section 'cluster' is read")->type_name("FILE");
  // CLI11 2.4 rejects a name with '='.
  command.add_option("KEYS", config->overrides, "Replaces or gives a key, e.g. cluster.worker_num=8")
      ->type_name("KEY=VALUE");
  return config;
}

/// Error(config) as in load_run_config(); without a file, also for overrides of other sections.
ClusterOptions read_cluster_options(const ClusterConfig& config, const KnownParts& parts) {
  if (!config.file.empty()) return train::load_run_config(config.file, config.overrides, parts).cluster;
  const auto given = parse_config("{}", "the command line", config.overrides);
  OnlyCluster read;
  read_fields(given.root, "", train::refused_words(), [&](ConfigFields& fields) { describe(fields, read); });
  return read.cluster;
}

int print_status(const std::string& text, bool json) {
  namespace elastic = cluster::elastic;
  const bool of_launchers = elastic::is_of_launchers(text);
  fmt::print("{}", json ? text : of_launchers ? elastic::status_table(text) : membership::status_table(text));
  std::fflush(stdout);
  return kOk;
}

/// The status of launchers at their endpoint.
int show_launchers(const std::string& endpoint, bool json) {
  constexpr std::uint16_t kPort = 29400;
  const auto place = parse_host_and_port(endpoint);
  if (!place || place->port == 0) {
    fail(ErrorKind::invalid_argument, "status", "--rdzv-endpoint '{}' must be HOST or HOST:PORT", endpoint);
  }
  const auto tls = net::find_peer_tls(current_environment());
  return print_status(membership::fetch_status(place->host, place->port.value_or(kPort), tls ? tls->client : nullptr),
                      json);
}

int show_status(const ClusterConfig& config, const KnownParts& parts, bool json) {
  ClusterOptions options = read_cluster_options(config, parts);
  if (!options.worker_num) options.worker_num = 1;  // required by the check of options, but not used here
  options.enable_recovery = false;
  Environment environment = current_environment();
  if ((!options.sched_host && !find(environment, "MS_SCHED_HOST")) ||
      (!options.sched_port && !find(environment, "MS_SCHED_PORT"))) {
    fail(ErrorKind::environment, "status",
         "the scheduler's address is not given: set MS_SCHED_HOST and MS_SCHED_PORT as its job has them, or give "
         "cluster.sched_host=HOST cluster.sched_port=PORT. For launchers give --rdzv-endpoint HOST:PORT; for the last "
         "calls of ranks on this machine, --calls");
  }
  environment.erase("MS_ENABLE_RECOVERY");
  const auto settings = find_cluster(environment, options, ClusterRole::worker);
  return print_status(membership::fetch_status(settings->host, settings->port, net::make_member_tls(*settings).context),
                      json);
}

/// The last calls of the ranks that were started on this machine; `folder`: of their logs, empty: of launchers that
/// run.
int show_calls(const std::string& folder) {
  constexpr std::size_t kShown = 5;
  constexpr std::chrono::milliseconds kSecondLook(500);
  const auto folders = folder.empty() ? cluster::running_log_folders()
                                      : std::vector<std::filesystem::path>{std::filesystem::path(folder)};
  if (folders.empty()) {
    fail(ErrorKind::invalid_argument, "status",
         "no launcher of this user without --log-dir runs on this machine; give the folder of its logs: "
         "--calls FOLDER (the workers of a scheduler have none, unless a launcher started them)");
  }
  for (const auto& each : folders) {
    auto ranks = cluster::read_calls_in(each);
    auto difference = cluster::compare_calls(ranks);
    if (!difference.empty()) {  // ranks that compute are read one after another
      std::this_thread::sleep_for(kSecondLook);
      const auto before = std::exchange(ranks, cluster::read_calls_in(each));
      difference = cluster::compare_calls(ranks);
      const auto same = [](const RankCalls& one, const RankCalls& other) { return one.groups == other.groups; };
      if (!std::ranges::equal(before, ranks, same)) difference = "the ranks go on making calls\n";
    }
    fmt::print("{}: the last calls of {} rank{}\n{}{}", each.string(), ranks.size(), ranks.size() == 1 ? "" : "s",
               difference.empty() ? "all of them have made the same collectives\n" : difference,
               cluster::table_of_calls(ranks, kShown));
  }
  return 0;
}

}  // namespace

void add_scheduler(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("scheduler", "Bring together the workers of a job that has no launcher");
  const auto config = add_cluster_config(*command);
  const auto page = std::make_shared<std::string>();
  CLI::Option* const wants_page =
      command->add_option("--dashboard", *page, kDashboardHelp)->type_name("[[HOST:]PORT]")->expected(0, 1);
  command->footer(kSchedulerFooter);
  command->callback([=, &chosen] {
    chosen = [=] {
      // CLI11 gives the next word to the flag, even where that is a key.
      const bool took_key = page->find('=') != std::string::npos;
      if (took_key) config->overrides.insert(config->overrides.begin(), *page);
      auto options = read_cluster_options(*config, parts);
      if (wants_page->count() > 0) options.dashboard = page->empty() || took_key ? "0" : *page;
      return runner::run_scheduler(options);
    };
  });
}

void add_status(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("status", "Show the state of a job: its members, what it waits for, and why");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "The JSON document of GET /v1/status (docs/scheduler.md) instead of a table");
  const auto config = add_cluster_config(*command);
  const auto endpoint = std::make_shared<std::string>();
  command
      ->add_option("--rdzv-endpoint,--rdzv_endpoint", *endpoint,
                   "The endpoint of a job of 'lockstep run' on several nodes (port by default: 29400)")
      ->type_name("HOST[:PORT]");
  const auto calls = std::make_shared<std::string>();
  CLI::Option* const wants_calls =
      command->add_option("--calls", *calls, "The last collectives of each rank on this machine, from these logs")
          ->type_name("[FOLDER]")
          ->expected(0, 1)
          ->excludes("--json")
          ->excludes("--rdzv-endpoint")
          ->excludes("--config")
          ->excludes("KEYS");
  command->footer(kStatusFooter);
  command->callback([=, &chosen] {
    chosen = [=] {
      if (wants_calls->count() > 0) return show_calls(*calls);
      return endpoint->empty() ? show_status(*config, parts, *json) : show_launchers(*endpoint, *json);
    };
  });
}

}  // namespace lockstep::cli
