// The states behind a Work that are not a backend's own.
#pragma once

#include <lockstep/comm/backend.h>

#include <functional>
#include <vector>

namespace lockstep::detail {

/// An operation that is complete already.
Backend::Pending done();

/// All of these.
Backend::Pending all_of(std::vector<Backend::Pending> works);

/// `first`, and then, once it succeeded, `finish` on the thread that waits.
Backend::Pending then(Backend::Pending first, std::function<void()> finish);

}  // namespace lockstep::detail
