// The choice of the rendezvous for ranks that an MPI launcher started. Internal to world/.
#pragma once

#include <lockstep/world/world.h>

namespace lockstep::detail {

/// By LOCKSTEP_INIT_METHOD, else at MASTER_ADDR and MASTER_PORT when both are set, else through MPI itself.
/// Error(environment) when only one of the two is set.
void meet_under_mpi(const Environment& environment, World& world);

}  // namespace lockstep::detail
