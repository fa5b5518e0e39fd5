// Detection of each launcher. Each is a pure function: nullopt when its variables are absent, Error(environment) when
// they are half set or contradict each other. Internal to world/; others call detect_world.
#pragma once

#include <lockstep/world/world.h>

#include <optional>

namespace lockstep::detail {

/// torchrun, `lockstep run`, or RANK and WORLD_SIZE set by hand. Without LOCAL_RANK and LOCAL_WORLD_SIZE all ranks are
/// taken to be on this host when the master address is a loopback one, else each rank to be alone on its host. With
/// LOCAL_RANK alone, as launchers before torchrun set it, and another host as master the local size stays unknown.
std::optional<World> detect_pytorch(const Environment& environment);

/// Open MPI's mpirun: OMPI_COMM_WORLD_*.
std::optional<World> detect_open_mpi(const Environment& environment);

/// MPICH's and Intel's mpiexec: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS. Not under srun, which can speak
/// PMI too.
std::optional<World> detect_mpich(const Environment& environment);

/// A step that srun started, also one of a single task; the shell of salloc or sbatch is none.
std::optional<World> detect_slurm(const Environment& environment);

/// RANK_ID, RANK_SIZE, DEVICE_ID, DEVICE_NUM and the file that RANK_TABLE_FILE names, which it reads (rank_table.h has
/// the pure function).
std::optional<World> detect_rank_table(const Environment& environment);

/// One process on its own.
World detect_none(const Environment& environment);

}  // namespace lockstep::detail
