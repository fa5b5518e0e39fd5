// The choice of this host's address for the other ranks.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <optional>
#include <string>

namespace lockstep::detail {

/// A network interface of this host that a variable asks for.
struct NamedInterface {
  std::string variable;
  std::string value;
  std::string interface;
  std::string address;
};

/// Of LOCKSTEP_SOCKET_IFNAME, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME the first that is set decides, all in NCCL's
/// syntax: beginnings of names, separated by commas; "=" in front: whole names; "^": all but those. Of several that
/// fit, one that is named in full, else the one with the address `usual` (the default without a variable; empty: the
/// outward address), else the first, loopback last. nullopt when none is set. Error(environment), listing the
/// interfaces of this host, when none that is up fits.
std::optional<NamedInterface> named_interface(const Environment& environment, const std::string& usual = {});

/// Only the address of that interface.
std::optional<std::string> named_interface_address(const Environment& environment, const std::string& usual = {});

/// The address from which this host reaches `host`; empty when it cannot be found.
std::string address_towards(const std::string& host, std::uint16_t port);

/// This host's address on its default route, else the first of an interface other than loopback; "127.0.0.1" when there
/// is none.
std::string outward_address();

}  // namespace lockstep::detail
