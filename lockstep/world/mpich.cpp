// Detection of Hydra, the mpiexec of MPICH and of Intel MPI.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/mpi_meeting.h>
#include <lockstep/world/rank_variables.h>
#include <lockstep/world/slurm_step.h>

namespace lockstep::detail {

std::optional<World> detect_mpich(const Environment& environment) {
  constexpr RankVariables kNames = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  const bool by_hydra = find(environment, kNames.local_rank).has_value();
  if (!by_hydra && is_slurm_step(environment)) return std::nullopt;
  auto world = read_rank_and_size(environment, kNames);
  if (!world) return std::nullopt;
  world->launcher = "mpich";
  if (!read_local(environment, kNames, *world) && world->size > 1) {
    fail(ErrorKind::environment, "world", "{} is set, but {} or {} is not; mpiexec sets all four", world->evidence,
         kNames.local_rank, kNames.local_size);
  }
  meet_under_mpi(environment, *world);
  return world;
}

}  // namespace lockstep::detail
