// Which of this host's addresses the other ranks should use.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <optional>
#include <string>

namespace lockstep::detail {

/// The address of the interface named by LOCKSTEP_SOCKET_IFNAME or GLOO_SOCKET_IFNAME; nullopt when neither is set.
/// Error(environment), listing the interfaces there are, when no such one has an address.
std::optional<std::string> named_interface_address(const Environment& environment);

/// The address from which this host reaches `host`; empty when it cannot be told.
std::string address_towards(const std::string& host, std::uint16_t port);

/// This host's address on its default route, else the first of an interface other than loopback; "127.0.0.1" when there
/// is none.
std::string outward_address();

}  // namespace lockstep::detail
