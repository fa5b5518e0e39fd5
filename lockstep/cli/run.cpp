// `lockstep run` and `lockstep launch`: start the ranks of a job on this machine, or this node's part of one on
// several.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cluster/c10d_store_host.h>
#include <lockstep/cluster/elastic/agent.h>
#include <lockstep/cluster/elastic/etcd_rendezvous.h>
#include <lockstep/cluster/elastic/node_rendezvous.h>
#include <lockstep/cluster/launch.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep::cli {
namespace {

namespace elastic = cluster::elastic;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kShortestLease(2);
constexpr std::uint16_t kC10dPort = 29400;  // the default of torch.distributed.run

/// torchrun's agents look at their ranks at this interval. Here ends and messages are events.
void check_monitor_interval(const std::string& text) {
  constexpr double kHour = 3600;
  const auto seconds = parse_number(text);
  if (seconds && *seconds > 0 && *seconds <= kHour) return;
  refuse("--monitor_interval must be a number of seconds above 0, at most {}; got '{}'", kHour, text);
}

elastic::AgentOptions options_of(const NodeFlags& flags, const RdzvConf& conf, int processes) {
  check_monitor_interval(flags.monitor_interval);
  const auto nodes = node_count_of(flags);
  const auto max_restarts = flags.max_restarts.value_or(0);
  if (max_restarts < 0 || max_restarts > std::numeric_limits<int>::max()) {
    refuse("--max_restarts {} must not be negative", max_restarts);
  }
  elastic::AgentOptions options;
  if (flags.rdzv_id.size() > elastic::kLongestName || cut_text(flags.rdzv_id, elastic::kLongestName) != flags.rdzv_id) {
    refuse("--rdzv_id '{}' must be a printable text of at most {} bytes", cut_text(flags.rdzv_id),
           elastic::kLongestName);
  }
  if (!flags.rdzv_id.empty()) options.job = flags.rdzv_id;
  options.policy.min_nodes = nodes.least;
  options.policy.max_nodes = nodes.most;
  options.policy.max_restarts = static_cast<int>(max_restarts);
  options.policy.max_replacements = replacements_of(flags);
  options.policy.join_timeout = conf.join_timeout;
  options.policy.last_call = conf.last_call_timeout;
  options.policy.replace_timeout = conf.replace_timeout;
  options.policy.heartbeat_limit = conf.keep_alive_interval * conf.keep_alive_max_attempt;
  options.heartbeat = conf.keep_alive_interval;
  options.join_limit = conf.join_timeout;
  options.node.ranks = processes;
  return options;
}

elastic::C10dEndpoint static_endpoint(const NodeFlags& flags, elastic::AgentOptions& options) {
  const auto nodes = node_count_of(flags);
  if (nodes.least != nodes.most) {
    refuse("--nnodes {} is for --rdzv_backend c10d or etcd: static nodes have numbers, and none may be missing",
           flags.nnodes);
  }
  const int node = given_node_rank(flags);
  const auto endpoint = endpoint_of(flags, kStaticPort);
  if (!endpoint) {
    refuse("--nnodes {} needs --master_addr, the address of node 0, or --rdzv_endpoint HOST:PORT", flags.nnodes);
  }
  options.node.given_rank = node;
  options.policy.ranks_given = true;
  return {.host = endpoint->host, .port = endpoint->port, .is_host = node == 0};
}

elastic::C10dEndpoint c10d_endpoint(const NodeFlags& flags, const RdzvConf& conf, elastic::AgentOptions& options) {
  const auto endpoint = endpoint_of(flags, kC10dPort);
  if (!endpoint) {
    refuse("--rdzv_backend c10d needs --rdzv_endpoint HOST[:PORT], the host of one of the nodes, the same on all");
  }
  auto is_host = conf.is_host;
  if (flags.node_rank) {
    options.node.given_rank = given_node_rank(flags);
    // Node 0 must be the host, even if several nodes are on one machine and each of them could be the host.
    if (!is_host && *options.node.given_rank != 0) is_host = false;
  }
  return {.host = endpoint->host, .port = endpoint->port, .is_host = is_host};
}

elastic::NodeRendezvous open_at_etcd(const NodeFlags& flags, const RdzvConf& conf, elastic::AgentOptions& options) {
  if (conf.is_host) refuse("--rdzv_conf is_host is for --rdzv_backend c10d: no node holds an etcd");
  auto etcd = elastic::etcd_options(flags.rdzv_endpoint, flags.rdzv_id, conf.of_backend);
  if (conf.read_timeout) etcd.timeout = *conf.read_timeout;
  if (flags.node_rank) options.node.given_rank = given_node_rank(flags);
  const auto server = elastic::find_server(etcd);
  options.address = flags.local_addr.empty() ? elastic::address_for_others(server.host, server.port) : flags.local_addr;
  options.node.host = elastic::name_of_host(options.address);
  const auto lease = std::max(std::chrono::ceil<std::chrono::seconds>(options.policy.heartbeat_limit), kShortestLease);
  // Etcd may be away for so long, and then the lease of a lost launcher has to expire.
  options.service_limit = etcd.timeout + 2 * lease;
  return elastic::open_etcd(etcd, options.address, elastic::addresses_of(options.address), lease);
}

/// Opens the rendezvous of the launchers, and sets the `options` that depend on its location.
elastic::NodeRendezvous open_rendezvous(const NodeFlags& flags, const RdzvConf& conf, elastic::AgentOptions& options) {
  if (is_one_node(flags)) {
    options.node.host = elastic::name_of_host(options.address);
    return elastic::open_on_one_node();
  }
  if (flags.rdzv_backend == "etcd") return open_at_etcd(flags, conf, options);
  if (!conf.of_backend.empty()) {
    refuse("--rdzv_conf {} is for --rdzv_backend etcd, and this is {}", conf.of_backend.begin()->first,
           flags.rdzv_backend);
  }
  auto endpoint =
      flags.rdzv_backend == "static" ? static_endpoint(flags, options) : c10d_endpoint(flags, conf, options);
  endpoint.allow_insecure = conf.allow_insecure;
  options.service_limit = conf.read_timeout.value_or(milliseconds(10'000));
  auto meeting = elastic::open_c10d(endpoint);
  options.address =
      flags.local_addr.empty() ? elastic::address_for_others(endpoint.host, endpoint.port) : flags.local_addr;
  options.node.host = elastic::name_of_host(options.address);
  options.node.runs_service = meeting.held_here;
  return meeting;
}

/// nullopt: the connection to the other nodes is lost, and they may continue.
std::optional<cluster::LaunchResult> take_part(const NodeFlags& flags, const RdzvConf& conf,
                                               const cluster::LaunchOptions& launch) {
  auto options = options_of(flags, conf, launch.processes);
  const auto meeting = open_rendezvous(flags, conf, options);
  try {
    return elastic::run_agent(launch, options, meeting);
  } catch (const elastic::CutOff& error) {
    fmt::print(
        stderr,
        "lockstep run: {}\nlockstep run: this launcher was cut off from its job and tries to join it again, for at "
        "most {:.0f} s (join_timeout)\n",
        error.message(), std::chrono::duration<double>(conf.join_timeout).count());
    return std::nullopt;
  }
}

int start_agent(const NodeFlags& flags, const cluster::LaunchOptions& launch) {
  const auto conf = parse_rdzv_conf(flags.rdzv_conf);
  for (;;) {
    const auto result = take_part(flags, conf, launch);
    if (!result) continue;
    std::fputs(result->report.c_str(), stderr);
    return result->exit_code;
  }
}

bool is_there(const std::string& program, const Environment& environment) {
  try {
    lockstep::detail::find_program(program, environment);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// `lockstep run ... train` is not an abbreviation of `lockstep run ... lockstep train`.
void refuse_bare_command(const CLI::App& app, const cluster::LaunchOptions& options) {
  const std::string& name = options.program.command.front();
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    refuse("{} is a configuration, and no program; did you mean 'lockstep run ... lockstep train --config {}'?", name,
           name);
  }
  const auto commands = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  const bool by_itself =
      options.program.kind != cluster::ProgramKind::module && options.program.kind != cluster::ProgramKind::script;
  if (commands.empty() || !by_itself || is_there(name, options.environment)) return;
  refuse(
      "there is no program '{}' in PATH; did you mean 'lockstep run ... lockstep {} ...'? The word after the flags is "
      "a program, and lockstep is one",
      name, name);
}

int run(const CLI::App& app, RunArguments& arguments, LaunchStyle style, std::vector<std::string> program) {
  translate_arguments(arguments, current_environment());
  const Surroundings here = {{usable_cpus(), cluster::usable_gpus()}, this_program()};
  auto options = launch_options_of(arguments, style, std::move(program), here);
  refuse_bare_command(app, options);
  tell(remarks_on(arguments, style, options, here));
  if (needs_agent(arguments.nodes)) return start_agent(arguments.nodes, options);
  options.first_rank = first_rank_of(arguments.nodes, options.processes, options.environment);
  const cluster::LaunchResult result = cluster::launch(options);
  std::fputs(result.report.c_str(), stderr);
  return result.exit_code;
}

void add_command(CLI::App& app, LaunchStyle style, const std::vector<std::string>& program, Action& chosen) {
  const auto [command, arguments] = add_run_command(app, style);
  command->callback([style, arguments = arguments, &app, &chosen, &program] {
    chosen = [style, arguments, &app, &program] { return run(app, *arguments, style, program); };
  });
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
  add_command(app, LaunchStyle::run, program, chosen);
}

void add_launch(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
  add_command(app, LaunchStyle::launch, program, chosen);
}

}  // namespace lockstep::cli
