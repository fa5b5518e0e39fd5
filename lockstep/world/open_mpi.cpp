// Detection of Open MPI's mpirun.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/mpi_meeting.h>
#include <lockstep/world/rank_variables.h>

namespace lockstep::detail {

std::optional<World> detect_open_mpi(const Environment& environment) {
  constexpr RankVariables kNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE"};
  auto world = read_rank_and_size(environment, kNames);
  if (!world) return std::nullopt;
  world->launcher = "open_mpi";
  if (!read_local(environment, kNames, *world)) {
    fail(ErrorKind::environment, "world", "{} is set, but {} or {} is not; mpirun sets all four", world->evidence,
         kNames.local_rank, kNames.local_size);
  }
  meet_under_mpi(environment, *world);
  return world;
}

}  // namespace lockstep::detail
