// The priority among several launchers' variables: one launcher decides, and the others must not contradict it.
#pragma once

#include <lockstep/world/world.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The launchers, of those that start one process per rank, whose variables are set.
std::vector<std::string> launchers_here(const Environment& environment);

namespace detail {

/// The launchers whose variables are ignored because another launcher decided `world`, each with its evidence: "slurm
/// (SLURM_PROCID=0 ...)". Launchers that are known to have started `lockstep run` itself are left out.
std::vector<std::string> overruled(const World& world, const Environment& environment);

/// Gives `world` priority over `outer`, whose variables are also set. Error(environment) when they contradict each
/// other: the outer launcher started more processes than there are ranks; RANK and WORLD_SIZE were set by hand (no
/// launcher set LOCAL_RANK) and differ from those of the outer launcher; or the outer launcher runs inside `lockstep
/// run` and starts several processes for each of its ranks.
void overrule(World& world, const World& outer, const Environment& environment);

/// Error(environment) when `outer` started more processes than the world has ranks.
void check_against_outer(const World& world, const World& outer, int processes);

/// Adds ", which wins over NAME" to the evidence.
void note_victory(World& world, std::string_view over);

/// Whether `lockstep run` itself was started by `launcher` when it started the ranks of `world`; nullopt when another
/// program started the ranks.
std::optional<bool> is_around_run(const World& world, std::string_view launcher, const Environment& environment);

/// The program that set torchrun's variables, for messages: "lockstep run", "lockstep::spawn", "torchrun"; "pytorch"
/// when it is not known (other launchers, or variables set by hand).
std::string starter_of_pytorch(const Environment& environment);

/// This machine's host name. Error(io) when it cannot be read.
std::string host_name();

}  // namespace detail
}  // namespace lockstep
