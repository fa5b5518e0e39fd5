// The addresses of a rendezvous: the address at which other ranks reach this host, and the addresses on which rank 0's
// store listens.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

/// A network interface of this host that a variable selects.
struct NamedInterface {
  std::string variable;
  std::string value;
  std::string interface;
  std::string address;
};

/// The first variable that is set decides: LOCKSTEP_SOCKET_IFNAME, GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, all in
/// NCCL's syntax: prefixes of names, separated by commas; "=" in front: full names; "^": all except those. Of several
/// interfaces that fit, the function takes one whose full name is given, else the one with the address `usual` (the
/// default without a variable; empty: the outward address), else the first, loopback last. nullopt when no variable is
/// set. Error(environment), listing the interfaces of this host, when no interface that is up fits.
std::optional<NamedInterface> named_interface(const Environment& environment, const std::string& usual = {});

/// Only the address of that interface.
std::optional<std::string> named_interface_address(const Environment& environment, const std::string& usual = {});

/// The address from which this host reaches `host`; empty when it cannot be found.
std::string address_towards(const std::string& host, std::uint16_t port);

/// The address at which the ranks of other hosts reach this one, in a job with its rendezvous at world.master_addr: the
/// start of the route to it. The outward address where the master is this host by a loopback address, and ranks may be
/// on other hosts.
std::string address_for_others(const World& world);

/// This host's address on its default route, else the first of an interface other than loopback; "127.0.0.1" when there
/// is none.
std::string outward_address();

/// The host of the rendezvous, as resolved on this host.
struct RendezvousHost {
  std::string name;                    ///< the name given to all ranks, e.g. MASTER_ADDR
  std::vector<std::string> addresses;  ///< the addresses to which the name resolves here
  bool all_ranks_here = false;         ///< all ranks are on this host, according to the launcher
};

/// The addresses on which to listen: the addresses of `name` that are also in `own`. The result is empty, for all
/// addresses, where they do not show to which address other hosts connect: none belongs to this host (behind network
/// address translation, or the address of a service), or the name resolves to loopback here although there are other
/// hosts, as Debian's /etc/hosts does for the machine's own name.
std::vector<std::string> addresses_to_listen_on(const RendezvousHost& host, const std::vector<std::string>& own);

/// The host to which a rank connects: loopback where all ranks are on this host, else `name`.
std::string host_to_connect_to(const RendezvousHost& host, const std::vector<std::string>& own);

/// Resolves the name through the system.
RendezvousHost find_rendezvous_host(const World& world, const std::string& name);

}  // namespace lockstep::detail
