// The settings of connect(): options overridden by the environment, and the choice of a backend.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// `options` with LOCKSTEP_BACKEND, LOCKSTEP_TIMEOUT_S, LOCKSTEP_START_TIMEOUT_S and LOCKSTEP_CHECK_COLLECTIVES
/// applied. Error(environment) naming a variable whose value breaks its rule, Error(invalid_argument) for an unknown
/// backend or a timeout that is not positive.
GroupOptions with_environment(GroupOptions options, const Environment& environment);

/// The backend for a group, given the number of each rank's host (BackendContext::hosts): self for one rank, else what
/// was asked for, where "auto" means shm when all ranks share a host, hierarchy when some do, and gloo when none do.
/// For hierarchy on a single host it is shm, the only engine that hierarchy would use. Error(invalid_argument) for
/// "self" with several ranks.
std::string_view choose_backend(std::string_view requested, const std::vector<int>& hosts);

}  // namespace lockstep::detail
