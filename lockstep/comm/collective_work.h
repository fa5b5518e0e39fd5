// The bridge from a backend's pending operation to the Work a user holds.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/work.h>

#include <c10/util/FunctionRef.h>

namespace lockstep::detail {

class GroupImpl;

/// Starts an operation and wraps it: its errors get the group, op, sequence number and cause, and fail the group where
/// they must. The Work keeps the group alive.
Work start_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start);

/// The same for a caller that waits at once: there is no Work to make, which takes as long as a small collective.
void finish_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start);

}  // namespace lockstep::detail
