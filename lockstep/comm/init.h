// init() with an init method, for programs that are given their rendezvous.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/world/init_method.h>

namespace lockstep {

/// The group of all ranks with this rendezvous: init(InitMethod{"tcp://node0:6060", rank, world_size}).
/// Errors: those of detect_world(InitMethod) and connect().
Group init(const InitMethod& method, const GroupOptions& options = {});

}  // namespace lockstep
