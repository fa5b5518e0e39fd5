// Slurm's srun: its steps, and its lists of hosts and of tasks per node. Internal to world/.
#pragma once

#include <lockstep/base/environment.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Whether this process is a task of a numbered srun step, not the shell of salloc or sbatch.
bool is_slurm_step(const Environment& environment);

/// The default rendezvous port of a step: from 20480 to 28671, below the ephemeral ports of Linux (from 32768 on). Two
/// steps have different ports when their job ids differ by less than 512 and their step ids by less than 16.
///
/// The port is computed from these ids, because there is no channel under every srun by which rank 0 could send a port
/// to the other ranks. Slurm's own key exchange, PMI, needs a plugin that the site selected and a matching library.
std::uint16_t port_of_slurm_step(std::int64_t job, std::int64_t step);

/// "n[01-03,7]x,other" -> n01x n02x n03x n7x other: zero padding is kept, several brackets in a name give all
/// combinations, the last bracket varying fastest. nullopt for text that breaks the grammar or names more than 65,536
/// hosts.
std::optional<std::vector<std::string>> expand_host_list(std::string_view text);

/// "8(x2),4" -> 8 8 4. nullopt for text that breaks the grammar or names more than 65,536 nodes.
std::optional<std::vector<int>> expand_tasks_per_node(std::string_view text);

}  // namespace lockstep::detail
