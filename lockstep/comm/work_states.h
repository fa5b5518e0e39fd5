// The states of a Work that do not belong to a backend: completed, combined and chained operations.
#pragma once

#include <lockstep/comm/backend.h>

#include <functional>
#include <vector>

namespace lockstep::detail {

/// The state of an operation that is complete already.
Backend::Pending done();

/// The state of all of these operations together.
Backend::Pending all_of(std::vector<Backend::Pending> works);

/// `first`, and then, once it succeeded, `finish` on the thread that waits.
Backend::Pending then(Backend::Pending first, std::function<void()> finish);

}  // namespace lockstep::detail
