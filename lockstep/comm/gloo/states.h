// Operations of Gloo that are under way.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/gloo/closable_gloo.h>

#include <exception>

namespace lockstep::detail::gloo {

/// A Gloo failure as Error(timeout) or Error(peer_lost): Gloo tells them apart only in its text.
Error as_error(const std::exception& error);

/// A collective of c10d.
Backend::Pending pending(c10::intrusive_ptr<c10d::Work> work);

/// A message of bytes. Its length goes first, because Gloo ends the process when a message does not fit its buffer.
Backend::Pending send_message(ClosableGloo& group, at::Tensor bytes, int destination, int tag);
Backend::Pending receive_message(ClosableGloo& group, at::Tensor bytes, int source, int tag);

}  // namespace lockstep::detail::gloo
