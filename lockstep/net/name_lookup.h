// Name resolution with a deadline.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::net {

/// The addresses behind `host`, a name or an address of IPv4 or IPv6, each with `port`; never empty. Error(io) when it
/// has none, Error(timeout) when the system has not answered by the deadline.
std::vector<boost::asio::ip::tcp::endpoint> look_up(const std::string& host, std::uint16_t port,
                                                    std::chrono::steady_clock::time_point deadline);

}  // namespace lockstep::net
