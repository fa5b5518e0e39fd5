// The order in which launchers are detected, and the priority when variables of several launchers are set.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/this_host.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/start.h>

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace lockstep {
namespace {

using Detect = std::optional<World> (*)(const Environment&);

struct Launcher {
  std::string_view name;
  Detect detect;
  std::string_view fix;  ///< what makes its variables appear
};

// The launchers that start one process per rank, in the order in which `auto` tries them.
constexpr std::array<Launcher, 5> kLaunchers = {{
    {"pytorch", detail::detect_pytorch, "set RANK and WORLD_SIZE, or start with 'lockstep run' or torchrun"},
    {"open_mpi", detail::detect_open_mpi, "start with Open MPI's mpirun (OMPI_COMM_WORLD_RANK is not set)"},
    {"mpich", detail::detect_mpich, "start with MPICH's mpiexec (PMI_RANK is not set)"},
    {"slurm", detail::detect_slurm, "start with srun (SLURM_PROCID or SLURM_STEP_ID is not set)"},
    {"rank_table", detail::detect_rank_table, "set RANK_TABLE_FILE and RANK_ID"},
}};

// Detection of a launcher that `auto` did not choose: incomplete variables are no error.
template <typename Ask>
auto ask_quietly(Ask ask, const Environment& environment) -> decltype(ask(environment)) {
  try {
    return ask(environment);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The worlds that the other launchers of ranks describe.
std::vector<World> others_than(const World& world, Environment environment) {
  environment.erase("LOCKSTEP_INIT_METHOD");  // a rank in it belongs to the world that was chosen
  std::vector<World> others;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.name == world.launcher) continue;
    if (auto other = ask_quietly(launcher.detect, environment)) others.push_back(std::move(*other));
  }
  return others;
}

// The innermost launcher, which was started by the outer ones, has priority.
void compare_with_outer(World& world, const Environment& environment) {
  for (const World& outer : others_than(world, environment)) detail::overrule(world, outer, environment);
  if (world.launcher == "cloud") return;
  if (const auto cloud = ask_quietly(detail::detect_cloud, environment)) {
    detail::check_against_outer(world, cloud->world, cloud->world.size / cloud->ranks);
    detail::note_victory(world, "cloud");
  }
}

std::optional<World> find_rank(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    auto world = launcher.detect(environment);
    // Clusters often start interactive shells with a single-task srun.
    if (world && !(world->launcher == "slurm" && world->size == 1)) return world;
  }
  return std::nullopt;
}

// Error(environment) when the rank is given by `what` and also by a launcher that started this process as one of
// several ranks.
void refuse_launcher_beside(const std::string& what, const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const auto world = ask_quietly(launcher.detect, environment);
    if (!world || world->size == 1) continue;
    fail(ErrorKind::environment, "world", "{}, but {} ({}) started this process as one of {}; leave out one of the two",
         what, world->launcher, world->evidence, world->size);
  }
}

[[noreturn]] void fail_missing(std::string_view launcher, std::string_view fix) {
  fail(ErrorKind::environment, "world", "launcher {} was asked for, but its variables are missing: {}, or use {}",
       launcher, fix, "--launcher auto");
}

// A single process without a launcher.
World only_process(const Environment& environment) {
  // A rendezvous is given, but not the rank of this process.
  if (detail::has_init_method(environment)) {
    fail(ErrorKind::environment, "world",
         "LOCKSTEP_INIT_METHOD='{}' is set but RANK and WORLD_SIZE are not; set all three, or unset it",
         *find(environment, "LOCKSTEP_INIT_METHOD"));
  }
  World world;
  world.evidence = "no launcher's variables are set";
  return world;
}

Start detect_auto(const Environment& environment, const StartOptions& options) {
  if (auto start = detail::start_of_arguments(options, environment)) {
    refuse_launcher_beside(start->world.evidence + " count nodes with one process each", environment);
    return *start;
  }
  if (const auto cluster = find_cluster(environment, options.cluster)) {
    refuse_launcher_beside(cluster->evidence + " makes this process one of a job with a scheduler", environment);
    return {detail::world_of_worker(*cluster, environment)};
  }
  const bool has_nodes = !options.nodes.addresses.empty();
  if (auto world = find_rank(environment)) {
    compare_with_outer(*world, environment);
    if (has_nodes) detail::note_victory(*world, "the list of nodes");
    return {*world};
  }
  if (auto start = detail::detect_cloud(environment)) {
    if (has_nodes) detail::note_victory(start->world, "the list of nodes");
    return *start;
  }
  if (has_nodes) return detail::start_of_node_list(options.nodes, detail::find_own_nodes(options.nodes), environment);
  detail::refuse_half_a_cluster(environment);
  return {only_process(environment)};
}

Start detect_scheduler_or_fail(const Environment& environment, const ClusterOptions& options) {
  if (const auto cluster = find_cluster(environment, options)) {
    return {detail::world_of_worker(*cluster, environment)};
  }
  fail_missing("scheduler", "set MS_ROLE, MS_WORKER_NUM, MS_SCHED_HOST and MS_SCHED_PORT");
}

World detect_mpi(const Environment& environment) {
  if (auto world = detail::detect_open_mpi(environment)) return *world;
  if (auto world = detail::detect_mpich(environment)) return *world;
  fail(ErrorKind::environment, "world",
       "launcher mpi was asked for, but neither OMPI_COMM_WORLD_RANK nor PMI_RANK is set; start with mpirun, or use "
       "--launcher auto");
}

Start detect_alone() {
  Start alone;
  alone.world.evidence = "launcher none was asked for";
  return alone;
}

Start detect_cloud_or_fail(const Environment& environment) {
  if (auto start = detail::detect_cloud(environment)) return *start;
  fail_missing("cloud", "set VC_TASK_INDEX and MA_NUM_HOSTS");
}

Start detect_nodes_or_fail(const Environment& environment, const NodeList& nodes) {
  if (nodes.addresses.empty()) {
    fail(ErrorKind::environment, "world",
         "launcher nodes was asked for, but there is no list of nodes: give parallel.nodes, or use --launcher auto");
  }
  return detail::start_of_node_list(nodes, detail::find_own_nodes(nodes), environment);
}

World detect_named(const Environment& environment, std::string_view name) {
  const auto launcher =
      std::find_if(kLaunchers.begin(), kLaunchers.end(), [&](const Launcher& l) { return l.name == name; });
  if (launcher == kLaunchers.end()) {
    const auto names = launcher_names();
    fail(ErrorKind::invalid_argument, "world", "there is no launcher '{}'{} (launchers: {})", name,
         did_you_mean(name, names), fmt::join(names, ", "));
  }
  if (auto world = launcher->detect(environment)) return *world;
  fail_missing(name, launcher->fix);
}

void warn_of(const std::vector<std::string>& overruled, const Start& start) {
  if (overruled.empty() || start.ranks > 1) return;
  log_warning(
      "{} decides which rank this is; there are also the variables of {}, which do not count. If that is wrong, unset "
      "them or name one with --launcher",
      start.world.launcher, fmt::join(overruled, " and of "));
}

}  // namespace

std::string detail::host_name() {
  if (const auto name = lockstep::host_name()) return *name;
  fail(ErrorKind::io, "world", "cannot read the host name: {}", std::generic_category().message(errno));
}

std::vector<std::string> launcher_names() {
  return {"auto", "none", "pytorch", "mpi", "open_mpi", "mpich", "slurm", "rank_table", "cloud", "nodes", "scheduler"};
}

Start detect_start(const Environment& environment, const StartOptions& options) {
  // --init_method overrides LOCKSTEP_INIT_METHOD.
  Environment given = environment;
  if (options.arguments.init_method) given.insert_or_assign("LOCKSTEP_INIT_METHOD", *options.arguments.init_method);
  const std::string& launcher = options.launcher;
  if (launcher == "auto") return detect_auto(given, options);
  if (launcher == "none") return detect_alone();
  if (launcher == "mpi") return {detect_mpi(given)};
  if (launcher == "cloud") return detect_cloud_or_fail(given);
  if (launcher == "nodes") return detect_nodes_or_fail(given, options.nodes);
  if (launcher == "scheduler") return detect_scheduler_or_fail(given, options.cluster);
  return {detect_named(given, launcher)};
}

std::vector<std::string> launchers_here(const Environment& environment) {
  std::vector<std::string> names;
  for (const Launcher& launcher : kLaunchers) {
    if (ask_quietly(launcher.detect, environment)) names.emplace_back(launcher.name);
  }
  return names;
}

std::vector<std::string> detail::overruled(const World& world, const Environment& environment) {
  std::vector<std::string> texts;
  for (const World& other : others_than(world, environment)) {
    if (is_around_run(world, other.launcher, environment) == true) continue;
    texts.push_back(fmt::format("{} ({})", other.launcher, other.evidence));
  }
  return texts;
}

Start detect_start(const StartOptions& options) {
  const auto environment = current_environment();
  Start start = detect_start(environment, options);
  start.world.host = detail::host_name();
  if (options.launcher == "auto" && start.world.rank == 0) warn_of(detail::overruled(start.world, environment), start);
  if (start.world.launcher == "pytorch") start.world.launcher = detail::starter_of_pytorch(environment);
  return start;
}

std::string describe(const Start& start) {
  const World& world = start.world;
  const std::string host = world.host.empty() ? "" : " on host " + world.host;
  return fmt::format("node {} of {}{}, started by {} ({}): ranks {} to {} of {}", world.rank / start.ranks,
                     world.size / start.ranks, host, world.launcher, world.evidence, world.rank,
                     world.rank + start.ranks - 1, world.size);
}

}  // namespace lockstep
