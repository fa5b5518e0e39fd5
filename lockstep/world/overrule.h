// Several launchers' variables at once: one decides, and the others must not contradict it. Internal to world/.
#pragma once

#include <lockstep/world/world.h>

namespace lockstep::detail {

/// `world` wins over `outer`, whose variables are there too. Error(environment) when both cannot be right:
/// the outer launcher started more processes than there are ranks; RANK and WORLD_SIZE were set by hand (no launcher
/// set LOCAL_RANK) and differ from what the outer one says; or it runs inside `lockstep run`, whose ranks it
/// multiplies.
void overrule(World& world, const World& outer, const Environment& environment);

/// Error(environment) when `outer` started more processes than the world has ranks.
void check_against_outer(const World& world, const World& outer, int processes);

/// Adds ", which wins over NAME" to the evidence.
void note_victory(World& world, std::string_view over);

/// One warning, of rank 0, about what is left over, as far as it is not known to be a launcher around `lockstep run`.
void warn_of_overruled(const World& world);

}  // namespace lockstep::detail
