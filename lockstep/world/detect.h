// Detection of each launcher, and the parts of Slurm's that others read. The detecting functions are pure: nullopt when
// their variables are absent, Error(environment) when the set is incomplete or contradictory. Internal to world/; other
// code calls detect_world.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// torchrun, `lockstep run`, or RANK and WORLD_SIZE set by hand. Without LOCAL_RANK and LOCAL_WORLD_SIZE, both stay
/// unknown until the rendezvous. With only one of them, as launchers before torchrun set it, all ranks are on this host
/// when the master address is a loopback address; with a master on another host, the local size stays unknown.
std::optional<World> detect_pytorch(const Environment& environment);

/// Open MPI's mpirun: OMPI_COMM_WORLD_*.
std::optional<World> detect_open_mpi(const Environment& environment);

/// MVAPICH's launchers: MV2_COMM_WORLD_*.
std::optional<World> detect_mvapich(const Environment& environment);

/// MPICH's and Intel's mpiexec: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS; Cray's with PMI_LOCAL_RANK and
/// PMI_LOCAL_SIZE. Not under srun, which can also provide PMI.
std::optional<World> detect_mpich(const Environment& environment);

/// A task of `flux run`, of jsrun, of PALS' mpiexec. Where no variable names the host of rank 0, master_addr is empty,
/// and require_place() refuses such a world.
std::optional<World> detect_flux(const Environment& environment);
std::optional<World> detect_jsm(const Environment& environment);
std::optional<World> detect_pals(const Environment& environment);

/// Error(environment) naming the variables to set, for a world whose ranks do not know the host of rank 0.
void require_place(const World& world);

/// A step started by srun, including steps of a single task. Not the shell of salloc or sbatch.
std::optional<World> detect_slurm(const Environment& environment);

/// RANK_ID, RANK_SIZE, DEVICE_ID, DEVICE_NUM and the file that RANK_TABLE_FILE names, which it reads (rank_table.h has
/// the pure function).
std::optional<World> detect_rank_table(const Environment& environment);

/// Error(environment) when this process is alone, but the variables of a batch system, a launcher or a platform show
/// that it should be one of several; the text names them and the solutions. For a process that no launcher detection
/// recognizes. Reads the host files that PBS_NODEFILE and similar variables name.
void refuse_lone_process(const Environment& environment);

/// "PBS_NODEFILE=... gives this job of PBS 2 hosts (a, b), ...": the job has other hosts beside this one, for a
/// launcher that starts processes on this host alone; nullopt where no variable shows that. Reads the same files as
/// refuse_lone_process().
std::optional<std::string> other_hosts(const Environment& environment);

/// Like detect_world(InitMethod), for a given environment; leaves the host empty.
World world_of_init_method(const InitMethod& method, Environment environment);

// Slurm's srun: its steps, and its lists of hosts and of tasks per node.

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
