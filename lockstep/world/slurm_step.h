// Telling a step of srun from the shell of salloc or sbatch. Internal to world/.
#pragma once

#include <lockstep/base/environment.h>

namespace lockstep::detail {

/// Whether this process is a task of a numbered srun step.
bool is_slurm_step(const Environment& environment);

}  // namespace lockstep::detail
