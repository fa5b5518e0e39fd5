// The options of `lockstep run` for jobs on several nodes, as torch.distributed.run and .launch have them, and the kind
// of job that they describe: one node, several nodes, or with an agent.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/world/world.h>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Throws Error(invalid_argument) of `lockstep run`.
template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "run", format, std::forward<Args>(args)...);
}

/// The default port of the rendezvous of a job on several nodes: that of torch.distributed.launch.
inline constexpr std::uint16_t kStaticPort = 29500;

/// The default number of ranks that are replaced in place.
inline constexpr int kReplacements = 3;

struct NodeFlags {
  std::string nnodes = "1";
  std::optional<std::int64_t> node_rank;
  std::optional<std::string> master_addr;
  std::optional<std::int64_t> master_port;
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id;
  std::string rdzv_conf;
  bool standalone = false;
  std::optional<std::int64_t> max_restarts;  ///< not given: kReplacements, and no restart of all ranks
  std::string on_loss = "replace";
  std::string monitor_interval = "0.1";
  std::string local_addr;
  std::string nodes;     ///< addresses separated by commas, instead of all flags above
  std::string hosts;     ///< the same with slots, "a:4,b:4"; auto: those of the batch system
  std::string hostfile;  ///< a file of hosts
  std::optional<std::int64_t> ctrl_port;
};

void add_node_flags(CLI::App& command, NodeFlags& flags);

/// The option --rdzv_conf: KEY=VALUE,KEY=VALUE.
struct RdzvConf {
  std::optional<bool> is_host;                                        ///< this node hosts the store
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);  ///< until the minimum number of nodes has joined
  std::chrono::milliseconds last_call_timeout = std::chrono::seconds(30);  ///< after that, until more nodes have joined
  std::chrono::milliseconds replace_timeout = std::chrono::minutes(1);  ///< until another node has a lost node's ranks
  std::chrono::milliseconds close_timeout = std::chrono::seconds(30);   ///< torchrun's; without effect here
  std::optional<std::chrono::milliseconds> read_timeout;  ///< of a request to the store; unset: the backend's default
  std::chrono::milliseconds keep_alive_interval = std::chrono::seconds(1);
  int keep_alive_max_attempt = 5;                 ///< intervals without a heartbeat, after which a node is lost
  bool allow_insecure = false;                    ///< other hosts may reach the launchers' service without a secret
  std::map<std::string, std::string> of_backend;  ///< settings of one backend only
};

/// Error(invalid_argument) for a text that is not KEY=VALUE, an unknown key, and an invalid value.
RdzvConf parse_rdzv_conf(const std::string& text);

/// msrun's flags; those with the names of torchrun's are in NodeFlags and OutputFlags.
struct MsrunFlags {
  std::optional<std::int64_t> worker_num;
  std::optional<std::int64_t> local_worker_num;
  std::string join;
  std::string cluster_time_out;
  std::string bind_core;
};

void add_msrun_flags(CLI::App& command, MsrunFlags& flags);

/// Converts msrun's flags to the number of nodes and of ranks on each node. They must not be combined with torchrun's
/// flags. `processes` is --nproc-per-node, empty when it was not given. Error(invalid_argument) for flags that break a
/// rule.
void apply_msrun_flags(const MsrunFlags& msrun, NodeFlags& nodes, std::string& processes);

/// Remarks for stderr on differences from msrun.
std::vector<std::string> remarks_on_msrun(const MsrunFlags& flags);

/// Converts --hosts and --hostfile to --nnodes, --node-rank, --master-addr and --nproc-per-node (`processes`, empty
/// when it was not given). No effect without them. Error(invalid_argument) if flags of the same meaning are given, too,
/// and when this machine is none of the hosts. Reads files and resolves names.
void apply_hosts(NodeFlags& nodes, std::string& processes, const Environment& environment);

struct NodeCount {
  int least = 1;
  int most = 1;
};

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};

/// How many lost ranks may be replaced in place. Error(invalid_argument) for a bad --on-loss.
int replacements_of(const NodeFlags& flags);

/// The following functions read some flags; Error(invalid_argument) when the flags break a rule.
NodeCount node_count_of(const NodeFlags& flags);
int given_node_rank(const NodeFlags& flags);
/// --rdzv_endpoint, or else --master_addr and --master_port; nullopt when no address is given that other nodes can use.
std::optional<Endpoint> endpoint_of(const NodeFlags& flags, std::uint16_t default_port);

/// The world of the first of `processes` ranks on this node; nullopt when the whole job is on this node and no
/// rendezvous address is given. For jobs without an agent. Error(invalid_argument) for flags that are incomplete or
/// contradict each other.
std::optional<World> first_rank_of(const NodeFlags& flags, int processes, const Environment& environment);

/// Whether the whole job is on this node.
bool is_one_node(const NodeFlags& flags);

/// Whether the flags require an elastic number of nodes, or restarts; `launch` starts all other jobs.
/// Error(invalid_argument) for a --rdzv_backend that does not exist, and flags that contradict each other.
bool needs_agent(const NodeFlags& flags);

/// Checks whether another launcher started this launcher as one of several processes, for a job on this node alone:
/// each of them would start the same job. Error(environment) under mpirun and srun, unless --standalone is given; a
/// remark for the user under other launchers, which may separate several jobs; nullopt without a remark.
std::optional<std::string> judge_outer_launcher(const NodeFlags& flags, const Environment& environment);

}  // namespace lockstep::cli
