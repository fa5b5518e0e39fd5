#include <lockstep/comm/bind_address.h>

#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <set>
#include <vector>

namespace lockstep::detail {
namespace {

struct InterfaceAddress {
  std::string interface;
  std::string address;
  bool loopback = false;
};

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

// IPv4 before IPv6, because every engine underneath can use the former.
std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const int family : {AF_INET, AF_INET6}) {
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family || (entry->ifa_flags & IFF_UP) == 0)
        continue;
      const auto address = numeric(entry->ifa_addr, length);
      const bool link_local = address.starts_with("fe80") || address.starts_with("169.254.");
      if (!address.empty() && !link_local) {
        found.push_back({entry->ifa_name, address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
      }
    }
  }
  return found;
}

}  // namespace

std::optional<std::string> named_interface_address(const Environment& environment) {
  for (const auto* variable : {"LOCKSTEP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    const auto name = find(environment, variable);
    if (!name || name->empty()) continue;
    std::set<std::string> names;
    for (const auto& candidate : interface_addresses()) {
      if (candidate.interface == *name) return candidate.address;
      names.insert(candidate.interface);
    }
    fail(ErrorKind::environment, "connect",
         "{}=\"{}\" names no network interface that is up and has an address; "
         "there are: {}",
         variable, *name, fmt::join(names, ", "));
  }
  return std::nullopt;
}

std::string address_towards(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    // Connecting a datagram socket sends nothing; it makes the kernel choose the route.
    const UniqueFd socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) != 0) continue;
    sockaddr_storage mine{};
    socklen_t length = sizeof(mine);
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &length) == 0) {
      return numeric(reinterpret_cast<const sockaddr*>(&mine), length);
    }
  }
  return {};
}

std::string outward_address() {
  // The default route leads out of the machine; bridges of containers (docker0) do not. The address is nobody's
  // (RFC 5737), and nothing is sent there.
  const auto by_default_route = address_towards("192.0.2.1", 9);
  for (const auto& candidate : interface_addresses()) {
    if (!candidate.loopback && candidate.address == by_default_route) return candidate.address;
  }
  for (const auto& candidate : interface_addresses()) {
    if (!candidate.loopback) return candidate.address;
  }
  return "127.0.0.1";
}

}  // namespace lockstep::detail
