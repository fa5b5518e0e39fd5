// Detection of platforms that start one container on each host: those that identify it in JSON (SageMaker, Vertex
// AI, TensorFlow's TF_CONFIG), or give it its index (ModelArts, Volcano); and of Kubeflow's TrainJob, which passes
// torchrun's flags.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;
using Hosts = std::vector<std::string>;

// The platforms' own ports belong to their servers.
constexpr std::uint16_t kPort = 6060;
constexpr std::int64_t kMostDevicesOfHost = 4096;
constexpr std::int64_t kMostNodesOfJob = 65536;

/// The data that a platform provides about a container.
struct Container {
  std::string_view launcher;
  Hosts hosts;            ///< the hosts of all containers, in the order of their numbers
  std::size_t index = 0;  ///< the number of this container
  int devices = 1;
  std::string evidence;
};

Start start_of(const Container& container, const Environment& environment) {
  const auto& own = container.hosts[container.index];
  const auto begin = container.hosts.begin();
  const auto before = std::count(begin, begin + static_cast<std::ptrdiff_t>(container.index), own);
  Start start;
  start.ranks = container.devices;
  World& world = start.world;
  world.launcher = container.launcher;
  world.rank = static_cast<int>(container.index) * container.devices;
  world.size = static_cast<int>(container.hosts.size()) * container.devices;
  world.local_rank = static_cast<int>(before) * container.devices;
  world.local_size =
      static_cast<int>(std::count(container.hosts.begin(), container.hosts.end(), own)) * container.devices;
  world.evidence = container.evidence;
  if (meet_by_init_method(environment, world)) return start;
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = find_master_addr(environment).value_or(container.hosts.front());
  world.master_port = find_master_port(environment).value_or(kPort);
  add_master(world);
  return start;
}

/// Calls `read` with the JSON in a variable; Error(environment) naming the variable when that fails.
template <typename Read>
auto with_json(std::string_view name, const std::string& text, Read read) -> decltype(read(Json())) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    fail(ErrorKind::environment, "world", "{}='{}' cannot be read: {}; the platform sets it, so correct it or unset it",
         name, cut_text(text), json_mistake(error));
  }
}

std::int64_t integer_in(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return parse_integer(value.get<std::string>()).value_or(-1);
}

/// "h" of "h:2222".
std::string without_port(const std::string& address) {
  const auto place = parse_host_and_port(address);
  return place ? place->host : address;
}

/// A cluster of several kinds of tasks, some of which are ranks.
struct ClusterVariable {
  std::string_view launcher;
  std::string_view name;
  std::array<std::string_view, 3> ranks;  ///< their kinds, in the order of ranks
  std::string_view kinds;                 ///< the same kinds, for messages
};

std::optional<Container> container_of(const ClusterVariable& variable, const Json& json) {
  Container container;
  container.launcher = variable.launcher;
  if (!json.contains("cluster")) return std::nullopt;  // a single process
  const auto type = json.at("task").at("type").get<std::string>();
  const auto index = integer_in(json.at("task").at("index"));
  std::optional<std::size_t> own;
  for (const auto kind : variable.ranks) {
    const auto found = json.at("cluster").find(kind);
    if (found == json.at("cluster").end()) continue;
    const auto addresses = found->get<std::vector<std::string>>();
    if (type == kind && index >= 0 && index < std::ssize(addresses)) {
      own = container.hosts.size() + static_cast<std::size_t>(index);
    }
    for (const auto& address : addresses) container.hosts.push_back(without_port(address));
  }
  container.evidence =
      fmt::format("{} with task {} {} of {}", variable.name, type, index, fmt::join(container.hosts, ","));
  if (own) {
    container.index = *own;
    if (container.hosts.size() < 2) return std::nullopt;
    return container;
  }
  if (std::ranges::find(variable.ranks, type) != variable.ranks.end()) {
    fail(ErrorKind::environment, "world",
         "{} is not among the tasks of its own cluster; the platform sets the variable, so correct it or unset it",
         container.evidence);
  }
  fail(ErrorKind::environment, "world",
       "{} is no rank: ranks are the tasks {}; leave out the other kinds of tasks, or use --launcher none for one "
       "process",
       container.evidence, variable.kinds);
}

std::optional<Start> detect_cluster_variable(const ClusterVariable& variable, const Environment& environment) {
  const auto text = find(environment, variable.name).value_or("");
  if (text.empty()) return std::nullopt;
  const auto container = with_json(variable.name, text, [&](const Json& json) { return container_of(variable, json); });
  if (!container) return std::nullopt;
  return start_of(*container, environment);
}

/// The variables of a platform that starts one process per node: the number of nodes, the index of this node, and the
/// number of ranks that it has to start.
struct NodeVariables {
  std::string_view launcher;
  const char* nodes;
  const char* node;
  const char* processes;
  const char* address;
  const char* port;
};

std::optional<Start> detect_numbered_nodes(const NodeVariables& names, const Environment& environment) {
  const auto nodes = parse_integer(find(environment, names.nodes).value_or(""));
  const auto node = find_integer(environment, names.node, 0, kMostNodesOfJob);
  if (!nodes || *nodes < 1 || *nodes > kMostNodesOfJob || !node) return std::nullopt;
  if (*node >= *nodes) {
    fail(ErrorKind::environment, "world", "{}={} is not below {}={}; nodes count from 0 to {}", names.node, *node,
         names.nodes, *nodes, *nodes - 1);
  }
  const auto processes = find(environment, names.processes).value_or("1");
  const auto devices = parse_integer(processes);
  if (!devices || *devices < 1 || *devices > kMostDevicesOfHost) {
    fail(ErrorKind::environment, "world",
         "{}={} makes this process one of several, and {}={} is no number of processes; start the program with "
         "'lockstep run', which takes it as torchrun does",
         names.nodes, *nodes, names.processes, processes);
  }
  Start start;
  start.ranks = static_cast<int>(*devices);
  World& world = start.world;
  world.launcher = names.launcher;
  world.rank = static_cast<int>(*node) * start.ranks;
  world.size = static_cast<int>(*nodes) * start.ranks;
  world.local_size = start.ranks;
  world.evidence = fmt::format("{}={} {}={} {}={}", names.nodes, *nodes, names.node, *node, names.processes, processes);
  if (world.size == 1 || meet_by_init_method(environment, world)) return start;
  const auto address = find(environment, names.address).value_or(*nodes == 1 ? "127.0.0.1" : "");
  const auto port = find_integer(environment, names.port, 1, 65535);
  if (address.empty() || (!port && *nodes > 1)) {
    fail(ErrorKind::environment, "world",
         "{} needs {} and {}, the host of node 0 and a free port there; or start the program with 'lockstep run'",
         world.evidence, names.address, names.port);
  }
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = address;
  world.master_port = static_cast<std::uint16_t>(*nodes == 1 ? 0 : *port);
  add_master(world);
  return start;
}

constexpr std::uint16_t kDefaultPort = 6060;  // the port in the platform's own examples
constexpr std::int64_t kMostHosts = 65536;
constexpr std::int64_t kMostDevices = 4096;

struct CloudHosts {
  std::string_view index_name;
  std::int64_t index = 0;
  std::int64_t count = 1;
  std::int64_t devices = 1;
};

/// The hosts of Volcano's task groups (VC_WORKER_HOSTS=a,b), by the names of their variables.
std::vector<std::pair<std::string, std::string>> task_groups(const Environment& environment) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (const auto& [name, value] : environment) {
    if (name.starts_with("VC_") && name.ends_with("_HOSTS") && !value.empty()) groups.emplace_back(name, value);
  }
  return groups;
}

std::int64_t count_hosts(const std::string& list) { return std::count(list.begin(), list.end(), ',') + 1; }

/// The number of hosts in the only group of tasks, where the platform does not give it.
std::optional<std::int64_t> count_of_group(const Environment& environment) {
  const auto groups = task_groups(environment);
  if (groups.empty()) return std::nullopt;
  if (groups.size() == 1) return count_hosts(groups.front().second);
  fail(ErrorKind::environment, "world",
       "the job has {} groups of tasks ({}, {}, ...), and the index of this task counts within one of them; set RANK, "
       "WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or put all tasks into one group",
       groups.size(), groups[0].first, groups[1].first);
}

std::optional<CloudHosts> read_hosts(const Environment& environment) {
  // Volcano sets both names to the same value.
  const auto* const index_name =
      find(environment, "VK_TASK_INDEX") && !find(environment, "VC_TASK_INDEX") ? "VK_TASK_INDEX" : "VC_TASK_INDEX";
  const auto index = find_integer(environment, index_name, 0, kMostHosts);
  auto count = find_integer(environment, "MA_NUM_HOSTS", 1, kMostHosts);
  if (!index && !count) return std::nullopt;
  const auto* const count_name = count ? "MA_NUM_HOSTS" : "the number of hosts";
  if (index && !count) count = count_of_group(environment);
  if (!index || !count) {
    fail(ErrorKind::environment, "world", "{} is set but {} is not{}; set both, or unset {}",
         index ? index_name : "MA_NUM_HOSTS", index ? "MA_NUM_HOSTS" : index_name,
         index ? ", nor VC_WORKER_HOSTS, which Volcano's plug-in svc sets" : "", index ? index_name : "MA_NUM_HOSTS");
  }
  if (*index >= *count) {
    fail(ErrorKind::environment, "world", "{}={} is not below {}={}; hosts count from 0 to {}", index_name, *index,
         count_name, *count, *count - 1);
  }
  // 0 on machine types without GPUs.
  const auto devices = find_integer(environment, "MA_NUM_GPUS", 0, kMostDevices).value_or(1);
  return CloudHosts{index_name, *index, *count, std::max<std::int64_t>(devices, 1)};
}

std::string first_host_of_cloud(const Environment& environment, const CloudHosts& hosts) {
  const auto groups = task_groups(environment);
  if (groups.empty()) {
    fail(ErrorKind::environment, "world",
         "MA_NUM_HOSTS={} but neither VC_WORKER_HOSTS nor MASTER_ADDR is set; set VC_WORKER_HOSTS to the names of all "
         "hosts, separated by commas",
         hosts.count);
  }
  const auto worker = std::ranges::find(groups, "VC_WORKER_HOSTS", &std::pair<std::string, std::string>::first);
  const auto& [name, list] = worker == groups.end() ? groups.front() : *worker;
  const auto listed = count_hosts(list);
  if (listed != hosts.count) {
    fail(ErrorKind::environment, "world", "{}='{}' names {} host{}, but MA_NUM_HOSTS={}; they must agree", name,
         cut_text(list), listed, listed == 1 ? "" : "s", hosts.count);
  }
  return list.substr(0, list.find(','));
}

void meet_in_cloud(const Environment& environment, const CloudHosts& hosts, World& world) {
  if (world.size == 1) return;
  if (meet_by_init_method(environment, world)) return;
  world.rendezvous = Rendezvous::tcp;
  const auto address = find_master_addr(environment);
  if (hosts.count == 1) {
    // All ranks are on this host: the code that starts them chooses the port unless it is given.
    world.master_addr = address.value_or("127.0.0.1");
    world.master_port = find_master_port(environment).value_or(0);
    return;
  }
  world.master_addr = address ? *address : first_host_of_cloud(environment, hosts);
  world.master_port = find_master_port(environment).value_or(kDefaultPort);
  add_master(world);
}

}  // namespace

std::optional<Start> detect_sagemaker(const Environment& environment) {
  const auto list = find(environment, "SM_HOSTS").value_or("");
  if (list.empty()) return std::nullopt;
  Container container;
  container.launcher = "sagemaker";
  container.hosts = with_json("SM_HOSTS", list, [](const Json& json) { return json.get<Hosts>(); });
  if (container.hosts.size() < 2) return std::nullopt;
  const auto own = find(environment, "SM_CURRENT_HOST").value_or("");
  const auto found = std::ranges::find(container.hosts, own);
  if (found == container.hosts.end()) {
    fail(ErrorKind::environment, "world",
         "SM_HOSTS={} has no host SM_CURRENT_HOST='{}'; the platform sets both, so set SM_CURRENT_HOST to this one",
         cut_text(list), cut_text(own));
  }
  container.index = static_cast<std::size_t>(found - container.hosts.begin());
  // 0 on machine types without GPUs.
  const auto devices = find_integer(environment, "SM_NUM_GPUS", 0, kMostDevicesOfHost).value_or(1);
  container.devices = static_cast<int>(std::max<std::int64_t>(devices, 1));
  container.evidence = fmt::format("SM_HOSTS={} SM_CURRENT_HOST={} SM_NUM_GPUS={}", list, own,
                                   find(environment, "SM_NUM_GPUS").value_or("unset"));
  return start_of(container, environment);
}

std::optional<Start> detect_cluster_spec(const Environment& environment) {
  return detect_cluster_variable(
      {"cluster_spec", "CLUSTER_SPEC", {"workerpool0", "workerpool1", ""}, "workerpool0 and workerpool1"}, environment);
}

std::optional<Start> detect_tf_config(const Environment& environment) {
  return detect_cluster_variable({"tf_config", "TF_CONFIG", {"chief", "master", "worker"}, "chief, master and worker"},
                                 environment);
}

std::optional<Start> detect_trainjob(const Environment& environment) {
  return detect_numbered_nodes(
      {"trainjob", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT"},
      environment);
}

bool is_numbered_by_pai(const Environment& environment) {
  return find(environment, "NPROC_PER_NODE") && find(environment, "RANK") && !find(environment, "LOCAL_RANK") &&
         !find(environment, "LOCAL_WORLD_SIZE");
}

std::optional<Start> detect_pai(const Environment& environment) {
  if (!is_numbered_by_pai(environment)) return std::nullopt;
  return detect_numbered_nodes({"pai", "WORLD_SIZE", "RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT"},
                               environment);
}

std::optional<Start> detect_cloud(const Environment& environment) {
  const auto hosts = read_hosts(environment);
  if (!hosts) return std::nullopt;
  Start start;
  start.ranks = static_cast<int>(hosts->devices);
  start.world.launcher = "cloud";
  start.world.rank = static_cast<int>(hosts->index * hosts->devices);
  start.world.size = static_cast<int>(hosts->count * hosts->devices);
  start.world.local_size = start.ranks;
  start.world.evidence = fmt::format("{}={} MA_NUM_HOSTS={} MA_NUM_GPUS={}", hosts->index_name, hosts->index,
                                     find(environment, "MA_NUM_HOSTS").value_or("unset"),
                                     find(environment, "MA_NUM_GPUS").value_or("unset"));
  meet_in_cloud(environment, *hosts, start.world);
  return start;
}

}  // namespace lockstep::detail
