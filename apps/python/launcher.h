// The variables with which PyTorch's ranks meet, under launchers that set others: srun and mpirun.
#pragma once

#include <lockstep/base/environment.h>

namespace lockstep::python {

/// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT of this process where its launcher sets
/// variables of its own alone; empty where RANK or WORLD_SIZE is set, and in a process without a launcher. Without
/// MASTER_ADDR where ranks of mpirun are on several hosts. Error(environment) where the launcher's variables contradict
/// each other.
Environment variables_of_launcher(const Environment& environment);

}  // namespace lockstep::python
