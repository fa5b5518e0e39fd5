// A sleep for coroutines.
#pragma once

#include <lockstep/net/channel.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>

namespace lockstep::net {

/// For co_spawn: the thread that runs the context gets what the coroutine throws.
inline void rethrow(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

/// Returns after `time`, or as soon as other code cancels or sets `timer`; the caller cannot distinguish these cases.
Awaitable<void> sleep(boost::asio::steady_timer& timer, std::chrono::milliseconds time);

}  // namespace lockstep::net
