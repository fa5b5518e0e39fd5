// Collectives of Gloo that are under way, and what its errors mean.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <exception>
#include <future>

namespace lockstep::detail::gloo {

/// A Gloo failure as Error(timeout) or Error(peer_lost): Gloo tells them apart only in its text.
Error as_error(const std::exception& error);

/// A collective of c10d.
Backend::Pending pending(c10::intrusive_ptr<c10d::Work> work);

/// Whether a thread of ours is through with it.
bool is_ready(const std::shared_future<void>& done);

/// What a thread of ours carries out.
Backend::Pending pending(std::shared_future<void> done);

}  // namespace lockstep::detail::gloo
