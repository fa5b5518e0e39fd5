// The states of a Work: completed, combined and chained operations, and the adapter from a backend's pending operation
// to the Work of the user.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/collectives.h>

#include <c10/util/FunctionRef.h>

#include <functional>
#include <vector>

namespace lockstep::detail {

/// The state of an operation that is already complete.
Backend::Pending done();

/// The combined state of all these operations.
Backend::Pending all_of(std::vector<Backend::Pending> works);

/// `first`, and then, if it succeeded, `finish` on the waiting thread.
Backend::Pending then(Backend::Pending first, std::function<void()> finish);

class GroupImpl;

/// Starts an operation and wraps it. Its errors receive the group, op, sequence number and cause, and end the group
/// where necessary. The Work keeps the group alive.
Work start_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start);

/// The same for a caller that waits at once: it makes no Work, which would take as long as a small collective.
void finish_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start);

}  // namespace lockstep::detail
