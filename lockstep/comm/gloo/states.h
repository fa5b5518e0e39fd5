// Collectives of Gloo that are under way, and what its errors mean.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <exception>

namespace lockstep::detail::gloo {

/// A Gloo failure as Error(timeout) or Error(peer_lost): Gloo tells them apart only in its text.
Error as_error(const std::exception& error);

/// A collective of c10d.
Backend::Pending pending(c10::intrusive_ptr<c10d::Work> work);

}  // namespace lockstep::detail::gloo
