// The order in which launchers are detected, and the priority when variables of several launchers are set.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>
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
  std::string_view fix;  ///< the way to get its variables set
};

// The launchers that start one process per rank, in the order in which `auto` tries them.
constexpr std::array<Launcher, 9> kLaunchers = {{
    {"pytorch", detail::detect_pytorch, "set RANK and WORLD_SIZE, or start with 'lockstep run' or torchrun"},
    {"open_mpi", detail::detect_open_mpi, "start with Open MPI's mpirun (OMPI_COMM_WORLD_RANK is not set)"},
    {"mvapich", detail::detect_mvapich, "start with MVAPICH's mpirun_rsh (MV2_COMM_WORLD_RANK is not set)"},
    {"flux", detail::detect_flux, "start with flux run (FLUX_TASK_RANK is not set)"},
    {"jsm", detail::detect_jsm, "start with jsrun (JSM_NAMESPACE_RANK is not set)"},
    {"pals", detail::detect_pals, "start with PALS' mpiexec (PALS_RANKID is not set)"},
    {"mpich", detail::detect_mpich, "start with MPICH's mpiexec (PMI_RANK is not set)"},
    {"slurm", detail::detect_slurm, "start with srun (SLURM_PROCID or SLURM_STEP_ID is not set)"},
    {"rank_table", detail::detect_rank_table, "set RANK_TABLE_FILE and RANK_ID"},
}};

struct Platform {
  std::string_view name;
  std::optional<Start> (*detect)(const Environment&);
  std::string_view fix;
};

// The launchers that start one process on each host, in the order in which `auto` tries them.
constexpr std::array<Platform, 6> kPlatforms = {{
    {"cloud", detail::detect_cloud, "set VC_TASK_INDEX and MA_NUM_HOSTS"},
    {"sagemaker", detail::detect_sagemaker, "set SM_CURRENT_HOST, and SM_HOSTS to several hosts"},
    {"cluster_spec", detail::detect_cluster_spec, "set CLUSTER_SPEC to a cluster of several tasks"},
    {"tf_config", detail::detect_tf_config, "set TF_CONFIG to a cluster of several tasks"},
    {"trainjob", detail::detect_trainjob, "set PET_NNODES and PET_NODE_RANK"},
    {"pai", detail::detect_pai, "set NPROC_PER_NODE, and RANK and WORLD_SIZE of nodes"},
}};

// Detection of a launcher that `auto` did not choose: incomplete variables are not an error.
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
  environment.erase("LOCKSTEP_INIT_METHOD");  // a rank in it belongs to the chosen world
  std::vector<World> others;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.name == world.launcher) continue;
    if (auto other = ask_quietly(launcher.detect, environment)) others.push_back(std::move(*other));
  }
  return others;
}

// jsrun and PALS also set the variables of an MPI for their tasks, and Flux those of PMI.
bool is_same_launcher(const World& world, const World& other) {
  constexpr std::array<std::string_view, 4> kWithMpi = {"jsm", "pals", "flux", "mvapich"};
  constexpr std::array<std::string_view, 2> kOfMpi = {"open_mpi", "mpich"};
  const auto one_of = [](const auto& names, const World& one) {
    return std::ranges::find(names, std::string_view(one.launcher)) != names.end();
  };
  const bool both =
      (one_of(kWithMpi, world) && one_of(kOfMpi, other)) || (one_of(kWithMpi, other) && one_of(kOfMpi, world));
  return both && world.rank == other.rank && world.size == other.size;
}

// The innermost launcher, which was started by the outer ones, has priority.
void compare_with_outer(World& world, const Environment& environment) {
  if (world.launcher == "flux") return;  // its tasks inherit the variables of the program that started Flux
  for (const World& outer : others_than(world, environment)) detail::note_outer_launcher(world, outer, environment);
  for (const Platform& platform : kPlatforms) {
    // torchrun's flags, which the command line of a launcher overrides.
    if (platform.name == "trainjob" || platform.name == "pai") continue;
    const auto start = ask_quietly(platform.detect, environment);
    if (!start) continue;
    detail::check_against_outer(world, start->world, start->world.size / start->ranks);
    detail::note_victory(world, platform.name);
  }
}

std::optional<Start> find_platform(const Environment& environment) {
  for (const Platform& platform : kPlatforms) {
    if (auto start = platform.detect(environment)) return start;
  }
  return std::nullopt;
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
  fail(ErrorKind::environment, "world", "launcher {} was requested, but its variables are missing: {}, or use {}",
       launcher, fix, "--launcher auto");
}

// A single process without a launcher.
World only_process(const Environment& environment) {
  // A rendezvous is given, but not the rank of this process.
  if (detail::has_init_method(environment)) {
    fail(ErrorKind::environment, "world",
         "LOCKSTEP_INIT_METHOD='{}' is set but RANK and WORLD_SIZE are not; set all three, or unset it",
         cut_text(*find(environment, "LOCKSTEP_INIT_METHOD")));
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
    detail::require_place(*world);
    compare_with_outer(*world, environment);
    if (has_nodes) detail::note_victory(*world, "the list of nodes");
    return {*world};
  }
  if (auto start = find_platform(environment)) {
    if (has_nodes) detail::note_victory(start->world, "the list of nodes");
    return *start;
  }
  if (has_nodes) return detail::start_of_node_list(options.nodes, detail::find_own_nodes(options.nodes), environment);
  detail::refuse_half_a_cluster(environment);
  detail::refuse_lone_process(environment);
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
  if (auto world = detail::detect_mvapich(environment)) return *world;
  if (auto world = detail::detect_mpich(environment)) return *world;
  fail(ErrorKind::environment, "world",
       "launcher mpi was requested, but neither OMPI_COMM_WORLD_RANK nor PMI_RANK is set; start with mpirun, or use "
       "--launcher auto");
}

Start detect_alone() {
  Start alone;
  alone.world.evidence = "launcher none was requested";
  return alone;
}

Start detect_platform_or_fail(const Environment& environment, const Platform& platform) {
  if (auto start = platform.detect(environment)) return *start;
  fail_missing(platform.name, platform.fix);
}

Start detect_nodes_or_fail(const Environment& environment, const NodeList& nodes) {
  if (nodes.addresses.empty()) {
    fail(ErrorKind::environment, "world",
         "launcher nodes was requested, but there is no list of nodes: give parallel.nodes, or use --launcher auto");
  }
  return detail::start_of_node_list(nodes, detail::find_own_nodes(nodes), environment);
}

World detect_named(const Environment& environment, std::string_view name) {
  const auto launcher =
      std::find_if(kLaunchers.begin(), kLaunchers.end(), [&](const Launcher& l) { return l.name == name; });
  if (launcher == kLaunchers.end()) {
    const auto names = launcher_names();
    fail(ErrorKind::invalid_argument, "world", "there is no launcher '{}'{} (launchers: {})", cut_text(name),
         did_you_mean(name, names), fmt::join(names, ", "));
  }
  if (auto world = launcher->detect(environment)) {
    detail::require_place(*world);
    return *world;
  }
  fail_missing(name, launcher->fix);
}

void warn_of(const std::vector<std::string>& outer_launchers, const Start& start) {
  if (outer_launchers.empty() || start.ranks > 1) return;
  log_warning(
      "launcher {} gives the rank; there are also the variables of {}, which are ignored. If that is wrong, unset "
      "them or name one with --launcher",
      start.world.launcher, fmt::join(outer_launchers, " and of "));
}

// The world of a process that is one rank. Error(environment) when the process would have to start several ranks.
World only_rank(Start start) {
  if (start.ranks == 1) return std::move(start.world);
  fail(ErrorKind::environment, "world",
       "{} ({}) starts one process for {} ranks; start them with 'lockstep run --nproc_per_node {}', or use 'lockstep "
       "train', which starts them itself",
       start.world.launcher, start.world.evidence, start.ranks, start.ranks);
}

}  // namespace

std::string detail::host_name() {
  if (const auto name = lockstep::host_name()) return *name;
  fail(ErrorKind::io, "world", "cannot read the host name: {}", std::generic_category().message(errno));
}

std::vector<std::string> launcher_names() {
  std::vector<std::string> names = {"auto", "none"};
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.name == "open_mpi") names.emplace_back("mpi");  // any of the MPI launchers
    names.emplace_back(launcher.name);
  }
  for (const Platform& platform : kPlatforms) names.emplace_back(platform.name);
  names.insert(names.end(), {"nodes", "scheduler"});
  return names;
}

Start detect_start(const Environment& environment, const StartOptions& options) {
  // --init_method overrides LOCKSTEP_INIT_METHOD.
  Environment given = environment;
  if (options.arguments.init_method) given.insert_or_assign("LOCKSTEP_INIT_METHOD", *options.arguments.init_method);
  const std::string& launcher = options.launcher;
  if (launcher == "auto") return detect_auto(given, options);
  if (launcher == "none") return detect_alone();
  if (launcher == "mpi") return {detect_mpi(given)};
  for (const Platform& platform : kPlatforms) {
    if (platform.name == launcher) return detect_platform_or_fail(given, platform);
  }
  if (launcher == "nodes") return detect_nodes_or_fail(given, options.nodes);
  if (launcher == "scheduler") return detect_scheduler_or_fail(given, options.cluster);
  return {detect_named(given, launcher)};
}

std::vector<World> worlds_here(const Environment& environment) {
  std::vector<World> worlds;
  for (const Launcher& launcher : kLaunchers) {
    if (auto world = ask_quietly(launcher.detect, environment)) worlds.push_back(std::move(*world));
  }
  return worlds;
}

std::vector<std::string> launchers_here(const Environment& environment) {
  std::vector<std::string> names;
  for (World& world : worlds_here(environment)) names.push_back(std::move(world.launcher));
  return names;
}

std::vector<std::string> detail::outer_launchers(const World& world, const Environment& environment) {
  std::vector<std::string> texts;
  for (const World& other : others_than(world, environment)) {
    if (is_around_run(world, other.launcher, environment) == true) continue;
    if (is_same_launcher(world, other)) continue;
    texts.push_back(fmt::format("{} ({})", other.launcher, other.evidence));
  }
  return texts;
}

Start detect_start(const StartOptions& options) {
  const auto environment = current_environment();
  Start start = detect_start(environment, options);
  start.world.host = detail::host_name();
  if (options.launcher == "auto" && start.world.rank == 0)
    warn_of(detail::outer_launchers(start.world, environment), start);
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

World detect_world(const Environment& environment, std::string_view launcher) {
  return only_rank(detect_start(environment, {.launcher = std::string(launcher)}));
}

World detect_world(std::string_view launcher) { return only_rank(detect_start({.launcher = std::string(launcher)})); }

World detect_world(const NodeList& nodes) { return only_rank(detect_start({.nodes = nodes})); }

std::string describe(const World& world) {
  const std::string host = world.host.empty() ? "" : " on host " + world.host;
  const std::string start = world.launcher == "none" ? "started without a launcher" : "started by " + world.launcher;
  const std::string device = world.device ? fmt::format(", device {}", *world.device) : "";
  const std::string evidence = world.evidence.empty() ? "" : " (" + world.evidence + ")";
  if (world.rank < 0) return fmt::format("a worker of {}{}, {}{}", world.size, host, start, evidence);
  const std::string local_size = world.local_size > 0 ? fmt::to_string(world.local_size) : "unknown";
  const std::string local =
      world.local_rank < 0 ? "local rank unknown" : fmt::format("local {} of {}", world.local_rank, local_size);
  return fmt::format("rank {} of {} ({}{}){}, {}{}", world.rank, world.size, local, device, host, start, evidence);
}

}  // namespace lockstep
