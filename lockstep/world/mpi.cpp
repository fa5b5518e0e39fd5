// Detection of the MPI launchers: Open MPI's mpirun, and Hydra, the mpiexec of MPICH and of Intel MPI.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/launcher_variables.h>

#include <fmt/format.h>

namespace lockstep::detail {
namespace {

// Fills in the rendezvous: that of LOCKSTEP_INIT_METHOD, else MASTER_ADDR and MASTER_PORT when both are set, else
// through MPI itself. Error(environment) when only one of MASTER_ADDR and MASTER_PORT is set.
void meet_under_mpi(const Environment& environment, World& world) {
  if (world.size == 1) return;
  if (meet_by_init_method(environment, world)) return;
  const auto address = find_master_addr(environment);
  const auto port = find_master_port(environment);
  if (address.has_value() != port.has_value()) {
    fail(ErrorKind::environment, "world",
         "{} is set but {} is not{}; set both for a rendezvous there, or unset {} for one through MPI",
         address ? "MASTER_ADDR" : "MASTER_PORT", address ? "MASTER_PORT" : "MASTER_ADDR",
         note_of_service(environment, "MASTER_PORT"), address ? "MASTER_ADDR" : "MASTER_PORT");
  }
  if (!address) {
    world.rendezvous = Rendezvous::mpi;
    return;
  }
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = *address;
  world.master_port = *port;
  add_evidence(world, "MASTER_ADDR", *address);
  add_evidence(world, "MASTER_PORT", fmt::to_string(*port));
}

[[noreturn]] void fail_without_local(const World& world, const RankVariables& names, std::string_view setters) {
  fail(ErrorKind::environment, "world", "{} is set, but {} or {} is not; {} all four", world.evidence, names.local_rank,
       names.local_size, setters);
}

}  // namespace

std::optional<World> detect_open_mpi(const Environment& environment) {
  constexpr RankVariables kNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE"};
  auto world = read_rank_and_size(environment, kNames);
  if (!world) return std::nullopt;
  world->launcher = "open_mpi";
  if (!read_local(environment, kNames, *world)) fail_without_local(*world, kNames, "mpirun sets");
  meet_under_mpi(environment, *world);
  return world;
}

std::optional<World> detect_mvapich(const Environment& environment) {
  constexpr RankVariables kNames = {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
                                    "MV2_COMM_WORLD_LOCAL_SIZE"};
  auto world = read_rank_and_size(environment, kNames);
  if (!world) return std::nullopt;
  world->launcher = "mvapich";
  if (!read_local(environment, kNames, *world) && world->size > 1) {
    fail_without_local(*world, kNames, "MVAPICH's launchers set");
  }
  meet_under_mpi(environment, *world);
  return world;
}

std::optional<World> detect_mpich(const Environment& environment) {
  constexpr RankVariables kNames = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  constexpr RankVariables kCray = {"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"};
  const bool by_hydra = find(environment, kNames.local_rank).has_value();
  if (!by_hydra && is_slurm_step(environment)) return std::nullopt;
  auto world = read_rank_and_size(environment, kNames);
  if (!world) return std::nullopt;
  world->launcher = "mpich";
  const bool local = read_local(environment, kNames, *world) || read_local(environment, kCray, *world);
  if (!local && world->size > 1) fail_without_local(*world, kNames, "mpiexec sets");
  meet_under_mpi(environment, *world);
  return world;
}

}  // namespace lockstep::detail
