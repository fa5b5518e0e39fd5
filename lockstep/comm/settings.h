// What connect() is to do, after the environment had its say, and the choice of a backend.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>

#include <string>
#include <string_view>

namespace lockstep::detail {

/// `options` with LOCKSTEP_BACKEND, LOCKSTEP_TIMEOUT_S, LOCKSTEP_START_TIMEOUT_S and LOCKSTEP_CHECK_COLLECTIVES
/// applied. Error(environment) naming a variable whose value breaks its rule, Error(invalid_argument) for an unknown
/// backend or a timeout that is not positive.
GroupOptions with_environment(GroupOptions options, const Environment& environment);

/// The backend for a group: self for one rank, else what was asked for, where "auto" means shm when all ranks share a
/// host and gloo otherwise. Error(invalid_argument) for "self" with several ranks.
std::string_view choose_backend(std::string_view requested, int size, bool one_host);

}  // namespace lockstep::detail
