// `lockstep status`: the state of a job, from its scheduler or from the launcher that runs its service.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/config_flags.h>
#include <lockstep/cluster/elastic/node_status.h>
#include <lockstep/cluster/etcd/client.h>
#include <lockstep/membership/service/status.h>
#include <lockstep/net/tls_contexts.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace lockstep::cli {
namespace {

constexpr const char* kStatusFooter =
    "Reads the status of the scheduler at MS_SCHED_HOST and MS_SCHED_PORT, or at the address in the section 'cluster'\n"
    "of --config; with --rdzv-endpoint, of the launchers of `lockstep run` that meet there. With TLS it shows this\n"
    "machine's client certificate, as a worker does.\n"
    "\n"
    "Exit code: 0 when the service answered, 1 when it did not, 2 when its address is not given.\n"
    "\n"
    "Examples:\n"
    "  MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=6667 lockstep status\n"
    "  lockstep status --rdzv-endpoint host0:29400\n"
    "  lockstep status --json cluster.sched_host=127.0.0.1 cluster.sched_port=6667";

int print_status(const std::string& text, bool json) {
  namespace elastic = cluster::elastic;
  const bool of_launchers = elastic::is_of_launchers(text);
  fmt::print("{}", json ? text : of_launchers ? elastic::status_table(text) : membership::status_table(text));
  std::fflush(stdout);
  return kOk;
}

/// The status of launchers at their endpoint.
int show_launchers(const std::string& endpoint, bool json) {
  const auto server =
      cluster::etcd::parse_server(endpoint.find(':') == std::string::npos ? endpoint + ":29400" : endpoint);
  if (!server) fail(ErrorKind::invalid_argument, "status", "--rdzv-endpoint '{}' must be HOST or HOST:PORT", endpoint);
  const auto tls = net::find_peer_tls(current_environment());
  return print_status(membership::fetch_status(server->host, server->port, tls ? tls->client : nullptr), json);
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
         "cluster.sched_host=HOST cluster.sched_port=PORT");
  }
  environment.erase("MS_ENABLE_RECOVERY");
  const auto settings = find_cluster(environment, options, ClusterRole::worker);
  return print_status(membership::fetch_status(settings->host, settings->port, net::make_member_tls(*settings).context),
                      json);
}

}  // namespace

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
  command->footer(kStatusFooter);
  command->callback([=, &chosen] {
    chosen = [=] { return endpoint->empty() ? show_status(*config, parts, *json) : show_launchers(*endpoint, *json); };
  });
}

}  // namespace lockstep::cli
