// The work states of Gloo's collectives, and the translation of Gloo's errors.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <exception>
#include <functional>
#include <future>

namespace lockstep::detail::gloo {

/// A Gloo failure as Error(timeout) or Error(peer_lost): Gloo distinguishes them only in its text.
Error as_error(const std::exception& error);

/// The state of a collective of c10d.
Backend::Pending pending(c10::intrusive_ptr<c10d::Work> work);

/// Whether a task on a thread of Lockstep is complete.
bool is_ready(const std::shared_future<void>& done);

/// The state of a task on a thread of Lockstep.
Backend::Pending pending(std::shared_future<void> done);

/// The same as `work`, with a check every second for losses that Gloo may miss: in libtorch 2 a rank whose peers close
/// their connections while it sends sometimes waits until the timeout. `check` throws Error(peer_lost). When it has
/// thrown for five seconds and the work is still not complete, its error ends the wait.
Backend::Pending watched(Backend::Pending work, std::function<void()> check);

}  // namespace lockstep::detail::gloo
