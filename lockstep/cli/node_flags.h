// The options of `lockstep run` for jobs on several nodes, as torch.distributed.run and .launch have them, and the kind
// of job that they describe: one node, several nodes, or with an agent.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Where a job of several nodes meets, unless told: torch.distributed.launch's.
inline constexpr std::uint16_t kStaticPort = 29500;

/// Ranks that are replaced in place unless the user says otherwise.
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
  std::optional<std::int64_t> max_restarts;  ///< not given: kReplacements, and all ranks are not restarted
  std::string on_loss = "replace";
  std::string monitor_interval = "0.1";
  std::string local_addr;
  std::string nodes;     ///< addresses separated by commas, instead of all the above
  std::string hosts;     ///< the same with slots, "a:4,b:4"; auto: those of the batch system
  std::string hostfile;  ///< a file of hosts
  std::optional<std::int64_t> ctrl_port;
};

void add_node_flags(CLI::App& command, NodeFlags& flags);

/// msrun's flags; those with the names of torchrun's are in NodeFlags and OutputFlags.
struct MsrunFlags {
  std::optional<std::int64_t> worker_num;
  std::optional<std::int64_t> local_worker_num;
  std::string join;
  std::string cluster_time_out;
  std::string bind_core;
};

void add_msrun_flags(CLI::App& command, MsrunFlags& flags);

/// Writes msrun's flags as the others, which they must not be beside: so many ranks on each of so many nodes.
/// `processes` is --nproc-per-node, empty when it was not given. Error(invalid_argument) for flags that break a rule.
void apply_msrun_flags(const MsrunFlags& msrun, NodeFlags& nodes, std::string& processes);

/// What msrun would do otherwise, to be said on stderr.
std::vector<std::string> remarks_on_msrun(const MsrunFlags& flags);

/// Writes --hosts and --hostfile as --nnodes, --node-rank, --master-addr and --nproc-per-node (`processes`, empty when
/// it was not given). Nothing without them. Error(invalid_argument) beside flags that say the same, and when this
/// machine is none of the hosts. Reads files and resolves names.
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

/// These read a few of the flags; Error(invalid_argument) when they break a rule.
NodeCount node_count_of(const NodeFlags& flags);
int given_node_rank(const NodeFlags& flags);
/// --rdzv_endpoint, or else --master_addr and --master_port; nullopt when no place is given that other nodes could
/// know.
std::optional<Endpoint> endpoint_of(const NodeFlags& flags, std::uint16_t default_port);

/// The world of the first of `processes` ranks on this node; nullopt when the whole job is here and no place to meet is
/// given. For jobs without an agent. Error(invalid_argument) for flags that are half given or
/// contradict each other.
std::optional<World> first_rank_of(const NodeFlags& flags, int processes, const Environment& environment);

/// Whether the whole job is on this node.
bool is_one_node(const NodeFlags& flags);

/// Whether the flags ask for several nodes that may come and go, or for restarts; `launch` is for the rest.
/// Error(invalid_argument) for a --rdzv_backend that does not exist, and flags that contradict each other.
bool needs_agent(const NodeFlags& flags);

/// Of a launcher that is one of several processes of another one, for a job on this node alone: each of them would
/// start the same job. Error(environment) under mpirun and srun, unless --standalone says that it is meant so; what to
/// tell people under other launchers, which may keep several jobs apart; nullopt where there is nothing to say.
std::optional<std::string> judge_outer_launcher(const NodeFlags& flags, const Environment& environment);

}  // namespace lockstep::cli
