// On which addresses rank 0's store listens, and at which one the ranks connect to it.
#pragma once

#include <lockstep/world/world.h>

#include <string>
#include <vector>

namespace lockstep::detail {

/// Where ranks meet, as this host sees it.
struct MeetingHost {
  std::string name;                    ///< what all ranks were told, e.g. MASTER_ADDR
  std::vector<std::string> addresses;  ///< what that stands for here
  bool all_ranks_here = false;         ///< as the launcher says
};

/// The addresses to listen on: those that `name` stands for, as far as they are among `own`. Empty, for all addresses,
/// where they do not say where other hosts connect: none is this host's (behind network address translation, or that
/// of a service), or a name means loopback here, as Debian's /etc/hosts has it for a machine's own name, and there are
/// other hosts.
std::vector<std::string> addresses_to_listen_on(const MeetingHost& host, const std::vector<std::string>& own);

/// What a rank connects to: loopback where all ranks are on this host, else `name`.
std::string host_to_connect_to(const MeetingHost& host, const std::vector<std::string>& own);

/// Asks the system.
MeetingHost find_meeting_host(const World& world, const std::string& name);

}  // namespace lockstep::detail
