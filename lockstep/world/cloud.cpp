// Detection of cloud training jobs that start one container per host and give each its index (ModelArts, Volcano).
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

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
  add_evidence(world, "master", fmt::format("{}:{}", world.master_addr, world.master_port));
}

}  // namespace

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
