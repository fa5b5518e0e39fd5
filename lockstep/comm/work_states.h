// The states of a Work: completed, combined and chained operations, and the bridge from a backend's pending operation
// to the Work that a user holds.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/collectives.h>

#include <c10/util/FunctionRef.h>

#include <functional>
#include <vector>

namespace lockstep::detail {

/// The state of an operation that is complete already.
Backend::Pending done();

/// The state of all of these operations together.
Backend::Pending all_of(std::vector<Backend::Pending> works);

/// `first`, and then, once it succeeded, `finish` on the thread that waits.
Backend::Pending then(Backend::Pending first, std::function<void()> finish);

class GroupImpl;

/// Starts an operation and wraps it: its errors get the group, op, sequence number and cause, and fail the group where
/// they must. The Work keeps the group alive.
Work start_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start);

/// The same for a caller that waits at once: there is no Work to make, which takes as long as a small collective.
void finish_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start);

}  // namespace lockstep::detail
