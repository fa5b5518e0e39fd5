// The world that an init method gives, as a pure function of an environment.
#pragma once

#include <lockstep/world/world.h>

namespace lockstep {

namespace detail {

/// Like detect_world(InitMethod), for a given environment; leaves the host empty.
World world_of_init_method(const InitMethod& method, Environment environment);

}  // namespace detail
}  // namespace lockstep
