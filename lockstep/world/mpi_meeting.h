// The choice of the rendezvous for ranks that an MPI launcher started. Internal to world/.
#pragma once

#include <lockstep/world/world.h>

namespace lockstep::detail {

/// Fills in the rendezvous: that of LOCKSTEP_INIT_METHOD, else MASTER_ADDR and MASTER_PORT when both are set, else
/// through MPI itself. Error(environment) when only one of MASTER_ADDR and MASTER_PORT is set.
void meet_under_mpi(const Environment& environment, World& world);

}  // namespace lockstep::detail
