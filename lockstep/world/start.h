// Detection of how this process was started: as one rank, or as the only process of a node, which starts its ranks.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/cluster_settings.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The arguments of programs that start their ranks with mp.spawn: rank and world size count nodes.
struct InitArguments {
  std::optional<std::string> init_method;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
};

struct StartOptions {
  std::string launcher = "auto";          ///< one of launcher_names()
  NodeList nodes{};                       ///< no addresses: none
  InitArguments arguments{};              ///< of the command line
  std::optional<int> devices_per_node{};  ///< ranks a node where the environment does not say
  ClusterOptions cluster{};               ///< of a job with a scheduler
};

/// The world of the first rank of this process, and the number of ranks it represents. With more than one it has to
/// start them: local rank i of `ranks` is rank world.rank + i. master_port 0 (all ranks on this node): the code that
/// starts them chooses the port.
struct Start {
  World world;
  int ranks = 1;
};

/// As detect_world, also for the ways that start one process a node ("cloud", "nodes") and for arguments of the command
/// line. Asks the system which of the nodes this is, and reads the file RANK_TABLE_FILE names.
Start detect_start(const Environment& environment, const StartOptions& options);

/// The same for this process's environment and host.
Start detect_start(const StartOptions& options);

/// "node 1 of 2 on host b, started by nodes (...): ranks 2 to 3 of 4": the description of a process that represents
/// several ranks.
std::string describe(const Start& start);

namespace detail {

/// Which entries of the list are addresses of this machine. Asks the system.
std::vector<int> find_own_nodes(const NodeList& list);

/// The start of a node of the list. LOCKSTEP_NODE_ADDR names it, else it is the one that is this machine's (`own`, from
/// find_own_nodes). Error(config) for a list that breaks a rule, Error(environment) when the node is unknown or not the
/// only one.
Start start_of_node_list(const NodeList& list, const std::vector<int>& own, const Environment& environment);

/// VC_WORKER_HOSTS, VC_TASK_INDEX, MA_NUM_HOSTS, MA_NUM_GPUS; nullopt when neither VC_TASK_INDEX nor MA_NUM_HOSTS is
/// set. Error(environment) when they are half set or contradict each other.
std::optional<Start> detect_cloud(const Environment& environment);

/// --rank and --world_size, which count nodes; nullopt without them. Error(invalid_argument) for half of them, and
/// Error(environment) where they contradict the cloud's variables.
std::optional<Start> start_of_arguments(const StartOptions& options, const Environment& environment);

}  // namespace detail
}  // namespace lockstep
