// The bridge from a backend's pending operation to the Work a user holds.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/work.h>

#include <functional>

namespace lockstep::detail {

class GroupImpl;

/// Starts an operation and wraps it: its errors get the group, op, sequence number and cause, and fail the group where
/// they must. The Work keeps the group alive.
Work start_work(GroupImpl& group, const Call& call, const std::function<Backend::Pending()>& start);

}  // namespace lockstep::detail
