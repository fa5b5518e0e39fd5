// `lockstep status`: the state of a job, from its scheduler.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/config_flags.h>
#include <lockstep/membership/service/status.h>
#include <lockstep/net/certificates/connection_security.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace lockstep::cli {
namespace {

constexpr const char* kStatusFooter =
    "Reads the status of the scheduler at MS_SCHED_HOST and MS_SCHED_PORT, or at the address in the section 'cluster'\n"
    "of --config. With TLS it shows this machine's client certificate, as a worker does.\n"
    "\n"
    "Exit code: 0 when the scheduler answered, 1 when it did not, 2 when its address is not given.\n"
    "\n"
    "Examples:\n"
    "  MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=6667 lockstep status\n"
    "  lockstep status --json cluster.sched_host=127.0.0.1 cluster.sched_port=6667";

int show_status(const ClusterConfig& config, bool json) {
  ClusterOptions options = read_cluster_options(config);
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
  const std::string text =
      membership::fetch_status(settings->host, settings->port, net::make_member_tls(*settings).context);
  fmt::print("{}", json ? text : membership::status_table(text));
  std::fflush(stdout);
  return kOk;
}

}  // namespace

void add_status(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("status", "Show the state of a scheduler and its workers");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "The JSON document of GET /v1/status (docs/scheduler.md) instead of a table");
  const auto config = add_cluster_config(*command);
  command->footer(kStatusFooter);
  command->callback([=, &chosen] { chosen = [=] { return show_status(*config, *json); }; });
}

}  // namespace lockstep::cli
