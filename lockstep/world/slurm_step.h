// The steps of Slurm's srun. Internal to world/.
#pragma once

#include <lockstep/base/environment.h>

#include <cstdint>

namespace lockstep::detail {

/// Whether this process is a task of a numbered srun step, not the shell of salloc or sbatch.
bool is_slurm_step(const Environment& environment);

/// The default rendezvous port of a step: from 20480 to 28671, below the ephemeral ports of
/// Linux (from 32768 on). Steps have different ports when their jobs' numbers differ by less than 512 and their own by
/// less than 16.
///
/// The port is computed from the numbers, because rank 0 has no channel to send a port of its choice to the others
/// under every srun. Slurm's own exchange, PMI, needs a plugin that the site chose and a library of the same kind.
std::uint16_t port_of_slurm_step(std::int64_t job, std::int64_t step);

}  // namespace lockstep::detail
