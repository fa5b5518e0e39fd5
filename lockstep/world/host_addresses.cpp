// Addresses from getaddrinfo(3) and getifaddrs(3) as text, IPv4 first, and tests for loopback and this host.
#include <lockstep/base/this_host.h>
#include <lockstep/world/host_addresses.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace lockstep {
std::string address_text(const sockaddr& address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t length = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (::getnameinfo(&address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

std::vector<std::string> resolve(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;  // one entry per address, instead of one per socket type
  addrinfo* raw = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &raw) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  std::vector<std::string> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
      if (entry->ai_family == family) found.push_back(address_text(*entry->ai_addr));
    }
  }
  return found;
}

std::vector<InterfaceAddress> own_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back({entry->ifa_name, address_text(*entry->ifa_addr), (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  for (auto& each : own_interfaces()) addresses.push_back(std::move(each.address));
  return addresses;
}

bool any_is_own(const std::vector<std::string>& addresses, const std::vector<std::string>& own) {
  return std::any_of(addresses.begin(), addresses.end(), [&](const std::string& address) {
    return address.starts_with("127.") || std::find(own.begin(), own.end(), address) != own.end();
  });
}

bool is_loopback_address(std::string_view address) { return address.starts_with("127.") || address == "::1"; }

bool is_always_this_host(std::string_view name) { return name == "localhost" || is_loopback_address(name); }

std::string address_of_host_name() {
  const auto name = host_name();
  if (!name) return "127.0.0.1";
  const auto addresses = resolve(*name);
  if (addresses.empty() || is_loopback_address(addresses.front())) return "127.0.0.1";
  return addresses.front();
}

}  // namespace lockstep
