// What people do to networks, for two hosts made of network namespaces.
#pragma once

#include "cli/program.h"

#include <array>
#include <filesystem>
#include <string>

namespace lockstep::test {

/// `ip WORDS` on a host; a failure fails the test.
void ip_on(int host, Words words);

/// One more interface on a host, which leads nowhere.
void add_interface(int host, const std::string& name, const std::string& address);

/// The host takes its cable for the way to `address`, and what it sends there is lost, as behind a firewall.
void lose_packets(int host, const std::string& address);

/// LOCKSTEP_SOCKET_IFNAME.
Environment over(const std::string& interface);

/// What each host takes for /etc/hosts, as iproute2 arranges it, until this is destroyed.
class HostsFiles {
 public:
  /// The lines of each beside that of localhost.
  explicit HostsFiles(const std::array<std::string, 2>& texts);
  HostsFiles(const HostsFiles&) = delete;
  HostsFiles& operator=(const HostsFiles&) = delete;
  ~HostsFiles();
};

}  // namespace lockstep::test
