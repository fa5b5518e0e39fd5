#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/world/detect.h>

#include <fmt/format.h>
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
  std::string_view mend;  ///< what makes its variables appear
};

// In the order in which `auto` asks them.
constexpr std::array<Launcher, 4> kLaunchers = {{
    {"pytorch", detail::detect_pytorch, "set RANK and WORLD_SIZE, or start with 'lockstep run' or torchrun"},
    {"open_mpi", detail::detect_open_mpi, "start with Open MPI's mpirun (OMPI_COMM_WORLD_RANK is not set)"},
    {"mpich", detail::detect_mpich, "start with MPICH's mpiexec (PMI_RANK is not set)"},
    {"slurm", detail::detect_slurm, "start with srun (SLURM_PROCID or SLURM_STEP_ID is not set)"},
}};

// A launcher around the one that decided started `outer.size` processes, and each of them is or started at least one
// rank. Fewer ranks than that: processes that take themselves for the same rank.
void check_against_outer(const World& world, const World& outer) {
  if (world.size >= outer.size) return;
  fail(ErrorKind::environment, "world",
       "{} ({}) contradicts {} ({}): {} processes cannot be {} rank{}; unset the variables that are left over, or name "
       "one with --launcher",
       world.launcher, world.evidence, outer.launcher, outer.evidence, outer.size, world.size,
       world.size == 1 ? "" : "s");
}

// What the launchers that `auto` did not choose say; half-set variables of theirs do not matter.
std::optional<World> ask_quietly(Detect detect, const Environment& environment) {
  try {
    return detect(environment);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// torchrun's variables win over those of whatever started torchrun.
void compare_with_outer(World& world, const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.name == world.launcher) continue;
    const auto outer = ask_quietly(launcher.detect, environment);
    if (!outer) continue;
    check_against_outer(world, *outer);
    world.evidence += fmt::format(", which wins over {}", outer->launcher);
  }
}

World detect_auto(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    auto world = launcher.detect(environment);
    // srun of one task is how clusters hand out a shell.
    if (!world || (world->launcher == "slurm" && world->size == 1)) continue;
    if (world->launcher == "pytorch") compare_with_outer(*world, environment);
    return *world;
  }
  return detail::detect_none(environment);
}

World detect_mpi(const Environment& environment) {
  if (auto world = detail::detect_open_mpi(environment)) return *world;
  if (auto world = detail::detect_mpich(environment)) return *world;
  fail(ErrorKind::environment, "world",
       "launcher mpi was asked for, but neither OMPI_COMM_WORLD_RANK nor PMI_RANK is set; start with mpirun, or use "
       "--launcher auto");
}

World detect_alone() {
  World world;
  world.evidence = "launcher none was asked for";
  return world;
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
  fail(ErrorKind::environment, "world", "launcher {} was asked for, but its variables are missing: {}, or use {}", name,
       launcher->mend, "--launcher auto");
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    fail(ErrorKind::io, "world", "cannot read the host name: {}", std::generic_category().message(errno));
  }
  return name.data();
}

}  // namespace

std::vector<std::string> launcher_names() { return {"auto", "none", "pytorch", "mpi", "open_mpi", "mpich", "slurm"}; }

World detect_world(const Environment& environment, std::string_view launcher) {
  if (launcher == "auto") return detect_auto(environment);
  if (launcher == "none") return detect_alone();
  if (launcher == "mpi") return detect_mpi(environment);
  return detect_named(environment, launcher);
}

World detect_world(std::string_view launcher) {
  World world = detect_world(current_environment(), launcher);
  world.host = host_name();
  return world;
}

std::string describe(const World& world) {
  const std::string host = world.host.empty() ? "" : " on host " + world.host;
  const std::string start = world.launcher == "none" ? "started without a launcher" : "started by " + world.launcher;
  return fmt::format("rank {} of {} (local {} of {}){}, {} ({})", world.rank, world.size, world.local_rank,
                     world.local_size, host, start, world.evidence);
}

}  // namespace lockstep
