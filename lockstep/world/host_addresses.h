// The addresses of this machine, and those of host names. Not pure: these functions query the system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

struct sockaddr;

namespace lockstep {

/// An IPv4 or IPv6 address as numeric text; empty for other address families.
std::string address_text(const sockaddr& address);

/// The numeric addresses of `name` (a host name or an address), IPv4 first; empty when it does not resolve.
std::vector<std::string> resolve(const std::string& name);

/// One address of a network interface.
struct InterfaceAddress {
  std::string name;
  std::string address;  ///< numeric
  bool loopback = false;
};

/// The addresses of this machine's interfaces that are up, IPv4 and IPv6.
std::vector<InterfaceAddress> own_interfaces();

/// The same addresses without the interfaces.
std::vector<std::string> own_addresses();

/// Whether one of `addresses` is one of `own`; addresses in 127.0.0.0/8 belong to every machine.
bool any_is_own(const std::vector<std::string>& addresses, const std::vector<std::string>& own);

/// Whether a numeric address is 127.x.x.x or ::1.
bool is_loopback_address(std::string_view address);

/// Whether a host name or an address refers to the local host on every host: localhost, 127.x.x.x, ::1.
bool is_always_this_host(std::string_view name);

/// The address of this machine's host name; "127.0.0.1" when that is a loopback address or the name does not resolve.
std::string address_of_host_name();

}  // namespace lockstep
