// The settings of a group with the variables that replace them.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>

namespace lockstep::detail {

/// `options` with LOCKSTEP_BACKEND, LOCKSTEP_TIMEOUT_S, LOCKSTEP_START_TIMEOUT_S, LOCKSTEP_HOST_TIMEOUT_S,
/// LOCKSTEP_CHECK_COLLECTIVES and LOCKSTEP_ENCRYPT applied. Error(environment) naming a variable whose value breaks its
/// rule; Error(invalid_argument) for an unknown backend, for one that cannot encrypt where encryption is required, or
/// for a timeout out of range.
GroupOptions with_environment(GroupOptions options, const Environment& environment);

}  // namespace lockstep::detail
