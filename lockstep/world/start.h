// The start of a process: as one rank, or as the only process of a node, which has to start the node's ranks.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/cluster_settings.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  NodeList nodes{};                       ///< without addresses: no node list
  InitArguments arguments{};              ///< command-line arguments
  std::optional<int> devices_per_node{};  ///< ranks per node, if the environment does not give them
  ClusterOptions cluster{};               ///< settings of a job with a scheduler
};

/// The world of the first rank of this process, and the number of ranks it represents. With more than one rank the
/// process has to start them: local rank i is rank world.rank + i. master_port 0 (all ranks on this node): the code
/// that starts the ranks chooses the port.
struct Start {
  World world;
  int ranks = 1;
};

/// Like detect_world, but also for the launchers that start one process per node ("cloud", "nodes") and for
/// command-line arguments. Not pure: determines which of the nodes this machine is, and reads the file that
/// RANK_TABLE_FILE names.
Start detect_start(const Environment& environment, const StartOptions& options);

/// The same for this process's environment and host.
Start detect_start(const StartOptions& options);

/// "node 1 of 2 on host b, started by nodes (...): ranks 2 to 3 of 4": the description of a process that represents
/// several ranks.
std::string describe(const Start& start);

/// The worlds of those launchers of one process per rank whose variables are set. The rendezvous may be unknown.
std::vector<World> worlds_here(const Environment& environment);

/// The names of these launchers.
std::vector<std::string> launchers_here(const Environment& environment);

namespace detail {

/// The indices of the entries of the list that are addresses of this machine. Not pure: resolves names.
std::vector<int> find_own_nodes(const NodeList& list);

/// The start of this node of the list. LOCKSTEP_NODE_ADDR names the node; otherwise it is the entry that is this
/// machine's (`own`, from find_own_nodes). Error(config) for a list that breaks a rule, Error(environment) when no
/// entry or several entries are this machine's.
Start start_of_node_list(const NodeList& list, const std::vector<int>& own, const Environment& environment);

/// The start given by VC_WORKER_HOSTS, VC_TASK_INDEX (or VK_TASK_INDEX), MA_NUM_HOSTS and MA_NUM_GPUS; nullopt when no
/// index and no MA_NUM_HOSTS is set. Error(environment) when the set is incomplete or contradictory.
std::optional<Start> detect_cloud(const Environment& environment);

/// The starts given by SM_HOSTS and SM_CURRENT_HOST (SageMaker), by the JSON of CLUSTER_SPEC (Vertex AI) and TF_CONFIG,
/// and by PET_NNODES and PET_NODE_RANK (Kubeflow's TrainJob); nullopt when they are not set, or when SM_HOSTS or the
/// JSON names one host. Error(environment) for values that cannot be read or contradict each other, and for a task that
/// is not a rank.
std::optional<Start> detect_sagemaker(const Environment& environment);
std::optional<Start> detect_cluster_spec(const Environment& environment);
std::optional<Start> detect_tf_config(const Environment& environment);
std::optional<Start> detect_trainjob(const Environment& environment);
std::optional<Start> detect_pai(const Environment& environment);
/// Whether RANK and WORLD_SIZE are those of Alibaba's PAI DLC, which count nodes: NPROC_PER_NODE is set, and no
/// variable gives the local rank of this process.
bool is_numbered_by_pai(const Environment& environment);

/// The start given by --rank and --world_size, which count nodes; nullopt without them. Error(invalid_argument) when
/// only one of them is given, and Error(environment) when they contradict the cloud's variables.
std::optional<Start> start_of_arguments(const StartOptions& options, const Environment& environment);

/// The launchers whose variables are ignored because another launcher decided `world`, each with its evidence: "slurm
/// (SLURM_PROCID=0 ...)". Launchers that are known to have started `lockstep run` itself are left out.
std::vector<std::string> outer_launchers(const World& world, const Environment& environment);

/// Whether RANK and WORLD_SIZE of `world` were set by hand in a shell: no launcher set LOCAL_RANK.
bool set_by_hand(const World& world, const Environment& environment);

/// Gives `world` priority over `outer`, whose variables are also set. Error(environment) when they contradict each
/// other: the outer launcher started more processes than there are ranks; RANK and WORLD_SIZE were set by hand (no
/// launcher set LOCAL_RANK) and differ from those of the outer launcher; or the outer launcher runs inside `lockstep
/// run` and starts several processes for each of its ranks.
void note_outer_launcher(World& world, const World& outer, const Environment& environment);

/// Error(environment) when `outer` started more processes than the world has ranks.
void check_against_outer(const World& world, const World& outer, int processes);

/// Adds ", which wins over NAME" to the evidence.
void note_victory(World& world, std::string_view over);

/// Whether `lockstep run` itself was started by `launcher` when it started the ranks of `world`; nullopt when another
/// program started the ranks.
std::optional<bool> is_around_run(const World& world, std::string_view launcher, const Environment& environment);

/// The program that set torchrun's variables, for messages: "lockstep run", "lockstep::spawn", "torchrun"; "pytorch"
/// when it is not known (other launchers, or variables set by hand).
std::string starter_of_pytorch(const Environment& environment);

/// This machine's host name. Error(io) when it cannot be read.
std::string host_name();

}  // namespace detail

}  // namespace lockstep
