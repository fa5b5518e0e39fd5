// Addresses of this host: interfaces by name patterns (LOCKSTEP_SOCKET_IFNAME), and the kernel's route to a peer.
#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
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

/// The value of a variable: "eth,ib", "=eth0", "^docker,br-", "^=docker0".
struct Names {
  std::vector<std::string> texts;
  bool whole = false;
  bool all_but = false;
};

Names parse_names(std::string_view text) {
  Names names;
  names.all_but = text.starts_with('^');
  if (names.all_but) text.remove_prefix(1);
  names.whole = text.starts_with('=');
  if (names.whole) text.remove_prefix(1);
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (comma != 0) names.texts.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return names;
}

bool fits(const std::string& interface, const Names& names) {
  const bool named = std::ranges::any_of(names.texts, [&](const std::string& text) {
    return names.whole ? interface == text : interface.starts_with(text);
  });
  return named != names.all_but;
}

const InterfaceAddress* choose(const std::vector<InterfaceAddress>& there, const Names& names,
                               const std::string& usual) {
  const auto rank = [&](const InterfaceAddress& one) {
    const auto exact = names.all_but ? names.texts.end() : std::ranges::find(names.texts, one.interface);
    const bool in_full = exact != names.texts.end();
    return std::tuple(exact - names.texts.begin(), one.loopback && !in_full, one.address != usual);
  };
  const InterfaceAddress* best = nullptr;
  for (const auto& one : there) {
    if (fits(one.interface, names) && (best == nullptr || rank(one) < rank(*best))) best = &one;
  }
  return best;
}

}  // namespace

std::optional<NamedInterface> named_interface(const Environment& environment, const std::string& usual) {
  for (const auto* variable : {"LOCKSTEP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const auto value = find(environment, variable).value_or("");
    if (value.empty()) continue;
    const auto there = interface_addresses();
    if (const auto* chosen = choose(there, parse_names(value), usual.empty() ? outward_address() : usual)) {
      return NamedInterface{variable, value, chosen->interface, chosen->address};
    }
    std::set<std::string> names;
    for (const auto& candidate : there) names.insert(candidate.interface);
    fail(ErrorKind::environment, "connect",
         "{}=\"{}\" fits no network interface that is up and has an address; there are: {}. Set LOCKSTEP_SOCKET_IFNAME "
         "to the one between the hosts",
         variable, value, fmt::join(names, ", "));
  }
  return std::nullopt;
}

std::optional<std::string> named_interface_address(const Environment& environment, const std::string& usual) {
  auto named = named_interface(environment, usual);
  if (!named) return std::nullopt;
  return std::move(named->address);
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
  // The default route leads out of the machine; bridges of containers (docker0) do not. The address is reserved for
  // documentation (RFC 5737), and nothing is sent there.
  const auto by_default_route = address_towards("192.0.2.1", 9);
  for (const auto& candidate : interface_addresses()) {
    if (!candidate.loopback && candidate.address == by_default_route) return candidate.address;
  }
  for (const auto& candidate : interface_addresses()) {
    if (!candidate.loopback) return candidate.address;
  }
  return "127.0.0.1";
}

std::string address_for_others(const World& world) {
  const bool all_here = world.local_size == world.size;
  if (!all_here && is_always_this_host(world.master_addr)) return outward_address();
  return address_towards(world.master_addr, world.master_port);
}

namespace {

constexpr auto kLoopback = "127.0.0.1";

}  // namespace

std::vector<std::string> addresses_to_listen_on(const RendezvousHost& host, const std::vector<std::string>& own) {
  if (host_to_connect_to(host, own) != host.name) return {kLoopback};
  std::vector<std::string> chosen;
  bool some_lead_here = false;
  for (const auto& address : host.addresses) {
    if (!any_is_own({address}, own)) continue;
    chosen.push_back(address);
    some_lead_here = some_lead_here || !is_loopback_address(address);
  }
  // A loopback address leads other hosts to themselves. This is a mistake of the user, which the doctor can report only
  // if the other hosts reach this one.
  if (some_lead_here || (is_always_this_host(host.name) && host.all_ranks_here)) return chosen;
  return {};
}

std::string host_to_connect_to(const RendezvousHost& host, const std::vector<std::string>& own) {
  const bool is_own = any_is_own(host.addresses, own);
  return host.all_ranks_here && is_own && !is_always_this_host(host.name) ? kLoopback : host.name;
}

RendezvousHost find_rendezvous_host(const World& world, const std::string& name) {
  return {name, resolve(name), world.local_size == world.size && world.size > 0};
}

}  // namespace lockstep::detail
