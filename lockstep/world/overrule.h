// The priority among several launchers' variables: one launcher decides, and the others must not contradict it.
#pragma once

#include <lockstep/world/world.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The launchers whose variables are set, of those that start one process a rank.
std::vector<std::string> launchers_here(const Environment& environment);

namespace detail {

/// Those whose variables do not count because another one decided about `world`, with what they say, except for those
/// that are known to be around `lockstep run`: "slurm (SLURM_PROCID=0 ...)".
std::vector<std::string> overruled(const World& world, const Environment& environment);

/// `world` wins over `outer`, whose variables are there too. Error(environment) when both cannot be right:
/// the outer launcher started more processes than there are ranks; RANK and WORLD_SIZE were set by hand (no launcher
/// set LOCAL_RANK) and differ from what the outer one says; or it runs inside `lockstep run`, whose ranks it
/// multiplies.
void overrule(World& world, const World& outer, const Environment& environment);

/// Error(environment) when `outer` started more processes than the world has ranks.
void check_against_outer(const World& world, const World& outer, int processes);

/// Adds ", which wins over NAME" to the evidence.
void note_victory(World& world, std::string_view over);

/// Whether `launcher` is one that `lockstep run` found when it started the ranks of `world`; nullopt when something
/// else started them.
std::optional<bool> is_around_run(const World& world, std::string_view launcher, const Environment& environment);

/// The program that set torchrun's variables, for messages: "lockstep run", "lockstep::spawn", "torchrun"; "pytorch"
/// when it is not known (other launchers, or variables set by hand).
std::string starter_of_pytorch(const Environment& environment);

/// This machine's name. Error(io) when the system does not tell.
std::string host_name();

}  // namespace detail
}  // namespace lockstep
