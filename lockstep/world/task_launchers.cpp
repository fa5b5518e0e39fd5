// Detection of Flux, of IBM's jsrun and of HPE's PALS. Each gives a task its rank and the number of tasks; the host of
// rank 0 follows from the list of the allocation's hosts, where there is one.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/host_file.h>
#include <lockstep/world/launcher_variables.h>

#include <fmt/format.h>

#include <array>
#include <limits>

namespace lockstep::detail {
namespace {

struct TaskLauncher {
  std::string_view name;
  RankVariables variables;
  std::string_view job;    ///< the variable with the job's name, which is the same for all of its ranks
  std::string_view nodes;  ///< the variable with the number of nodes; empty: the launcher sets none
  bool has_hosts;          ///< whether rank 0 is on the first host of the allocation
  std::string_view advice;
};

constexpr std::array<TaskLauncher, 3> kTaskLaunchers = {
    {{"flux",
      {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""},
      "FLUX_JOB_ID",
      "FLUX_JOB_NNODES",
      false,
      "set MASTER_ADDR to the job's first host ('flux hostlist -n 0 local' prints it)"},
     {"jsm",
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
      "LSB_JOBID",
      "",
      true,
      "set MASTER_ADDR to the host of rank 0"},
     {"pals",
      {"PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
      "PALS_APID",
      "",
      true,
      "set MASTER_ADDR to the host of rank 0"}}};

const TaskLauncher* find_launcher(std::string_view name) {
  for (const TaskLauncher& launcher : kTaskLaunchers) {
    if (launcher.name == name) return &launcher;
  }
  return nullptr;
}

void read_local_of_task(const Environment& environment, const TaskLauncher& launcher, World& world) {
  if (read_local(environment, launcher.variables, world)) return;
  const auto local = find_integer(environment, launcher.variables.local_rank, 0, world.size - 1);
  const auto nodes = launcher.nodes.empty() ? std::nullopt : find_integer(environment, launcher.nodes, 1, world.size);
  const bool on_one_node = world.size == 1 || nodes == 1;
  world.local_rank = static_cast<int>(local.value_or(on_one_node ? world.rank : 0));
  world.local_size = on_one_node ? world.size : 0;  // unknown: counted at the rendezvous
}

std::string first_host(const Environment& environment, const TaskLauncher& launcher, const World& world) {
  if (world.local_size == world.size) return "127.0.0.1";
  if (!launcher.has_hosts) return "";
  try {
    const auto allocated = find_allocated_hosts(environment);
    return allocated ? allocated->hosts.front().host : "";
  } catch (const Error&) {
    return "";  // require_place reports what to do
  }
}

void meet_tasks(const Environment& environment, const TaskLauncher& launcher, World& world) {
  if (world.size == 1 || meet_by_init_method(environment, world)) return;
  const auto address = find_master_addr(environment);
  const auto job = find(environment, launcher.job).value_or("");
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = address ? *address : first_host(environment, launcher, world);
  world.master_port = find_master_port(environment).value_or(port_of_job(job));
  world.store_prefix = fmt::format("/{}/{}", launcher.name, job);
  if (!world.master_addr.empty()) add_master(world);
}

std::optional<World> detect_tasks(const Environment& environment, std::string_view name) {
  const TaskLauncher& launcher = *find_launcher(name);
  // PALS uses PMI's variable for the size, which other launchers set too.
  const bool has_size = launcher.name != "pals" && find(environment, launcher.variables.size).has_value();
  if (!has_size && !find(environment, launcher.variables.rank)) return std::nullopt;
  auto world = read_rank_and_size(environment, launcher.variables);
  world->launcher = launcher.name;
  read_local_of_task(environment, launcher, *world);
  meet_tasks(environment, launcher, *world);
  return world;
}

}  // namespace

std::optional<World> detect_flux(const Environment& environment) { return detect_tasks(environment, "flux"); }

std::optional<World> detect_jsm(const Environment& environment) { return detect_tasks(environment, "jsm"); }

std::optional<World> detect_pals(const Environment& environment) { return detect_tasks(environment, "pals"); }

void require_place(const World& world) {
  if (world.rendezvous != Rendezvous::tcp || !world.master_addr.empty()) return;
  const TaskLauncher* launcher = find_launcher(world.launcher);
  fail(ErrorKind::environment, "world",
       "{} ({}) gives this process its rank, but no variable names the host of rank 0: {}, or LOCKSTEP_INIT_METHOD to "
       "file:///PATH in a folder that all hosts share",
       world.launcher, world.evidence,
       launcher == nullptr ? "set MASTER_ADDR to the host of rank 0" : launcher->advice);
}

}  // namespace lockstep::detail
