// A sleep for coroutines.
#pragma once

#include <lockstep/net/channel.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>

namespace lockstep::net {

/// Returns after `time`, or as soon as other code cancels or sets `timer`; the caller cannot distinguish these cases.
Awaitable<void> sleep(boost::asio::steady_timer& timer, std::chrono::milliseconds time);

}  // namespace lockstep::net
