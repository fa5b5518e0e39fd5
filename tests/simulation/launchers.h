// One simulated life of an elastic job: the real state machines of the service of launchers and of their sessions, over
// a simulated clock, network and etcd, with faults. One seed decides everything.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "simulation/life.h"

namespace lockstep::simulation {

/// `trace`: nullptr, or where the life is written as a readable sequence.
Outcome live_launchers(std::uint64_t seed, std::ostream* trace);

}  // namespace lockstep::simulation
