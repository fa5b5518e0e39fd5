// Waiting inside a coroutine.
#pragma once

#include <lockstep/net/channel.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>

namespace lockstep::net {

/// Returns after `time`, or as soon as somebody cancels or sets `timer`, which is not told apart.
Awaitable<void> sleep(boost::asio::steady_timer& timer, std::chrono::milliseconds time);

}  // namespace lockstep::net
