// Detection of cloud training jobs that start one container per host and give each its index (ModelArts).
#include <lockstep/base/error.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::detail {
namespace {

constexpr std::uint16_t kDefaultPort = 6060;  // the port in the platform's own examples
constexpr std::int64_t kMostHosts = 65536;
constexpr std::int64_t kMostDevices = 4096;

struct CloudHosts {
  std::int64_t index = 0;
  std::int64_t count = 1;
  std::int64_t devices = 1;
};

std::optional<CloudHosts> read_hosts(const Environment& environment) {
  const auto index = find_integer(environment, "VC_TASK_INDEX", 0, kMostHosts);
  const auto count = find_integer(environment, "MA_NUM_HOSTS", 1, kMostHosts);
  if (!index && !count) return std::nullopt;
  if (!index || !count) {
    fail(ErrorKind::environment, "world", "{} is set but {} is not; set both, or unset {}",
         index ? "VC_TASK_INDEX" : "MA_NUM_HOSTS", index ? "MA_NUM_HOSTS" : "VC_TASK_INDEX",
         index ? "VC_TASK_INDEX" : "MA_NUM_HOSTS");
  }
  if (*index >= *count) {
    fail(ErrorKind::environment, "world", "VC_TASK_INDEX={} is not below MA_NUM_HOSTS={}; hosts count from 0 to {}",
         *index, *count, *count - 1);
  }
  // 0 on machine types without GPUs.
  const auto devices = find_integer(environment, "MA_NUM_GPUS", 0, kMostDevices).value_or(1);
  return CloudHosts{*index, *count, std::max<std::int64_t>(devices, 1)};
}

std::string first_host_of_cloud(const Environment& environment, const CloudHosts& hosts) {
  const auto list = find(environment, "VC_WORKER_HOSTS");
  if (!list || list->empty()) {
    fail(ErrorKind::environment, "world",
         "MA_NUM_HOSTS={} but neither VC_WORKER_HOSTS nor MASTER_ADDR is set; set VC_WORKER_HOSTS to the names of all "
         "hosts, separated by commas",
         hosts.count);
  }
  const auto listed = std::count(list->begin(), list->end(), ',') + 1;
  if (listed != hosts.count) {
    fail(ErrorKind::environment, "world", "VC_WORKER_HOSTS='{}' names {} host{}, but MA_NUM_HOSTS={}; they must agree",
         *list, listed, listed == 1 ? "" : "s", hosts.count);
  }
  return list->substr(0, list->find(','));
}

void meet_in_cloud(const Environment& environment, const CloudHosts& hosts, World& world) {
  if (world.size == 1) return;
  if (meet_by_init_method(environment, world)) return;
  world.meeting = Meeting::tcp;
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
  start.world.evidence = fmt::format("VC_TASK_INDEX={} MA_NUM_HOSTS={} MA_NUM_GPUS={}", hosts->index, hosts->count,
                                     find(environment, "MA_NUM_GPUS").value_or("unset"));
  meet_in_cloud(environment, *hosts, start.world);
  return start;
}

}  // namespace lockstep::detail
