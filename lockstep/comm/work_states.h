// The states behind a Work that are not a backend's own.
#pragma once

#include <lockstep/comm/backend.h>

#include <functional>

namespace lockstep::detail {

/// An operation that is complete already.
Backend::Pending done();

/// `first`, and then, once it succeeded, `finish` on the thread that waits.
Backend::Pending then(Backend::Pending first, std::function<void()> finish);

}  // namespace lockstep::detail
