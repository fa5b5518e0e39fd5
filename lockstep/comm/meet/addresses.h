// The addresses of a rendezvous: at which one this host is reached by the other ranks, and where rank 0's store
// listens.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/world/world.h>

#include <optional>
#include <string>
#include <vector>

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

/// At which the ranks of other hosts reach this one, in a job that meets at world.master_addr: where the way to that
/// begins. The outward address where the master is this host by a loopback address, and ranks may be on others.
std::string address_for_others(const World& world);

/// This host's address on its default route, else the first of an interface other than loopback; "127.0.0.1" when there
/// is none.
std::string outward_address();

/// Where ranks meet, as this host sees it.
struct RendezvousHost {
  std::string name;                    ///< what all ranks were told, e.g. MASTER_ADDR
  std::vector<std::string> addresses;  ///< what that stands for here
  bool all_ranks_here = false;         ///< as the launcher says
};

/// The addresses to listen on: those that `name` stands for, as far as they are among `own`. Empty, for all addresses,
/// where they do not say where other hosts connect: none is this host's (behind network address translation, or that
/// of a service), or a name means loopback here, as Debian's /etc/hosts has it for a machine's own name, and there are
/// other hosts.
std::vector<std::string> addresses_to_listen_on(const RendezvousHost& host, const std::vector<std::string>& own);

/// What a rank connects to: loopback where all ranks are on this host, else `name`.
std::string host_to_connect_to(const RendezvousHost& host, const std::vector<std::string>& own);

/// Asks the system.
RendezvousHost find_rendezvous_host(const World& world, const std::string& name);

}  // namespace lockstep::detail
