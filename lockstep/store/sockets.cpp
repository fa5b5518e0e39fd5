// TCP listeners on given addresses at one port, or on all addresses of IPv6 and IPv4; and a search in /proc/net/tcp and
// tcp6 for the other end of a local connection, and its uid.
#include <lockstep/store/sockets.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::store {
namespace {

struct Bound {
  UniqueFd socket;
  int error = 0;
};

void set_option(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

Bound listen_on(const sockaddr* address, socklen_t length) {
  const int family = address->sa_family;
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {{}, errno};
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // connections of an earlier store may still be in TIME_WAIT
  if (family == AF_INET6) {
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
    set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
  }
  if (::bind(socket.get(), address, length) != 0) return {{}, errno};
  if (::listen(socket.get(), SOMAXCONN) != 0) return {{}, errno};
  return {std::move(socket), 0};
}

Bound listen_on(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0) return {{}, EADDRNOTAVAIL};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  return listen_on(list->ai_addr, list->ai_addrlen);
}

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

[[noreturn]] void fail_with(int error) { throw std::runtime_error(std::generic_category().message(error)); }

// Listens on all addresses: IPv6 together with IPv4 if this host has both.
Listening listen_everywhere(std::uint16_t port) {
  auto bound = listen_on("::", port);
  if (!bound.socket && bound.error != EADDRINUSE) bound = listen_on("0.0.0.0", port);
  if (!bound.socket) fail_with(bound.error);
  Listening listening;
  listening.port = port_of(bound.socket.get());
  listening.sockets.push_back(std::move(bound.socket));
  return listening;
}

}  // namespace

Listening listen_at(const std::vector<std::string>& addresses, std::uint16_t port) {
  if (addresses.empty()) return listen_everywhere(port);
  constexpr int kAttempts = 20;  // a port that the kernel chose for one address may be in use on another
  for (int attempt = 1;; ++attempt) {
    Listening listening;
    listening.port = port;
    int error = 0;
    for (const auto& address : addresses) {
      auto bound = listen_on(address, listening.port);
      if (bound.error != 0) error = bound.error;
      if (bound.error == EADDRINUSE) break;
      if (!bound.socket) continue;  // an example is ::1 when IPv6 is disabled
      listening.port = port_of(bound.socket.get());
      listening.sockets.push_back(std::move(bound.socket));
    }
    if (error != EADDRINUSE && !listening.sockets.empty()) return listening;
    if (error != EADDRINUSE || port != 0 || attempt == kAttempts) fail_with(error);
  }
}

namespace {

struct Ends {
  sockaddr_storage own{};
  sockaddr_storage peer{};
};

std::optional<Ends> ends_of(int socket) {
  Ends ends;
  socklen_t own = sizeof ends.own;
  socklen_t peer = sizeof ends.peer;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&ends.own), &own) != 0) return std::nullopt;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&ends.peer), &peer) != 0) return std::nullopt;
  return ends;
}

/// A socket that takes both families has IPv4 addresses in the form of IPv6.
const in_addr* find_v4(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_V4MAPPED(&v6) ? reinterpret_cast<const in_addr*>(v6.s6_addr + 12) : nullptr;
}

std::uint16_t number_of_port(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

bool is_loopback(const sockaddr_storage& address) {
  if (const auto* v4 = find_v4(address)) return (ntohl(v4->s_addr) >> 24) == 127;
  return is_loopback_address(address_text(reinterpret_cast<const sockaddr&>(address)));
}

/// An address in the format of the kernel's tables: each word of four bytes as a number of this machine.
std::string hex_of(const sockaddr_storage& address, bool as_v6) {
  std::array<std::uint32_t, 4> words = {0, 0, htonl(0xFFFF), 0};
  const auto* v4 = find_v4(address);
  if (v4 != nullptr) {
    words[3] = v4->s_addr;
  } else {
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, sizeof words);
  }
  std::string text;
  for (std::size_t i = as_v6 ? 0 : 3; i < words.size(); ++i) text += fmt::format("{:08X}", words[i]);
  return fmt::format("{}:{:04X}", text, number_of_port(address));
}

/// The user in the line with these ends, whose format is "N: own peer state queues timer retries uid timeout inode
/// ...".
std::optional<uid_t> find_in(const char* file, const std::string& ends) {
  std::ifstream in(file);
  const std::string table(std::istreambuf_iterator<char>(in), {});
  const auto at = table.find(ends);
  if (at == std::string::npos) return std::nullopt;
  std::istringstream fields(table.substr(at + ends.size(), table.find('\n', at) - at - ends.size()));
  std::string skipped;
  unsigned long user = 0;
  unsigned long inode = 0;
  fields >> skipped >> skipped >> skipped >> skipped >> user >> skipped >> inode;
  // The kernel shows a connection that no process has open any more as root's, with no inode.
  if (!fields || inode == 0) return std::nullopt;
  return static_cast<uid_t>(user);
}

}  // namespace

std::optional<uid_t> find_peer_user(int socket) {
  const auto ends = ends_of(socket);
  if (!ends) return std::nullopt;
  const bool v4 = find_v4(ends->own) != nullptr && find_v4(ends->peer) != nullptr;
  const auto line = [&](bool as_v6) {
    return fmt::format(": {} {} ", hex_of(ends->peer, as_v6), hex_of(ends->own, as_v6));
  };
  // The kernel prints the tables in pieces, and a line that moves between two pieces may be missed.
  constexpr int kReads = 5;
  for (int read = 0; read < kReads; ++read) {
    auto user = v4 ? find_in("/proc/net/tcp", line(false)) : std::nullopt;
    if (!user) user = find_in("/proc/net/tcp6", line(true));
    if (user) return user;
  }
  return std::nullopt;
}

bool is_of_other_user(int socket) {
  const auto ends = ends_of(socket);
  if (!ends || !is_loopback(ends->peer)) return false;
  const auto user = find_peer_user(socket);
  return !user || (*user != ::geteuid() && *user != 0);
}

}  // namespace lockstep::store
