// TCP listeners on given addresses at one port, or on all addresses of IPv6 and IPv4.
#include <lockstep/store/listen.h>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
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

}  // namespace lockstep::store
