// The addresses of this machine, and those of a host name. These functions ask the system: not pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

struct sockaddr;

namespace lockstep {

/// An IPv4 or IPv6 address in digits; empty when it is neither.
std::string address_text(const sockaddr& address);

/// Numeric addresses that `name` (a host name or an address) stands for, IPv4 first; empty when it does not resolve.
std::vector<std::string> resolve(const std::string& name);

/// Numeric addresses of this machine's interfaces that are up.
std::vector<std::string> own_addresses();

/// Whether one of `addresses` is one of `own`; every address in 127.0.0.0/8 is each machine's own.
bool any_is_own(const std::vector<std::string>& addresses, const std::vector<std::string>& own);

/// Whether an address in digits is 127.x.x.x or ::1.
bool is_loopback_address(std::string_view address);

/// The address that this machine's name stands for; "127.0.0.1" when that is a loopback one or there is none.
std::string address_of_host_name();

}  // namespace lockstep
