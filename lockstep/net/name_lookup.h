// Name resolution with a deadline.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::net {

/// The endpoints of `host`, a name or an IPv4 or IPv6 address, with `port`; never empty. Error(io) when the name has no
/// address, Error(timeout) when the resolver has not answered by the deadline.
std::vector<boost::asio::ip::tcp::endpoint> look_up(const std::string& host, std::uint16_t port,
                                                    std::chrono::steady_clock::time_point deadline);

}  // namespace lockstep::net
