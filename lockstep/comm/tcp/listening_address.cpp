// A rank's port, token and numeric host as text in the store, and nonblocking sockets that listen there or connect.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/tcp/listening_address.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace lockstep::detail::tcp {
namespace {

/// The numeric address and port, for the kernel. Error(data) for any other text.
class BoundAddress {
 public:
  explicit BoundAddress(const ListeningAddress& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* raw = nullptr;
    if (::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &raw) != 0) {
      fail(ErrorKind::data, "tcp", "'{}' is not an address", address.host);
    }
    list_.reset(raw);
  }

  UniqueFd socket() const {
    return UniqueFd(::socket(list_->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  const sockaddr* get() const { return list_->ai_addr; }
  socklen_t length() const { return list_->ai_addrlen; }

 private:
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list_{nullptr, &::freeaddrinfo};
};

std::uint16_t port_in(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

std::uint16_t own_port(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? port_in(address) : 0;
}

}  // namespace

std::string print(const ListeningAddress& address) {
  return fmt::format("{} {} {}", address.port, address.token, address.host);
}

ListeningAddress parse_listening_address(const std::string& text) {
  const auto first = text.find(' ');
  const auto second = text.find(' ', first + 1);
  const auto port = parse_integer(text.substr(0, first));
  if (second == std::string::npos || !port || *port < 1 || *port > 65535) {
    fail(ErrorKind::data, "tcp", "the store holds no address of a rank where one must be");
  }
  return {text.substr(second + 1), static_cast<std::uint16_t>(*port), text.substr(first + 1, second - first - 1)};
}

std::string address_of(const ListeningAddress& address) { return host_and_port(address.host, address.port); }

std::string address_of_peer(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "?";
  return address_of({address_text(reinterpret_cast<const sockaddr&>(address)), port_in(address), {}});
}

UniqueFd listen_at(ListeningAddress& address) {
  const BoundAddress target(address);
  UniqueFd socket = target.socket();
  if (!socket || ::bind(socket.get(), target.get(), target.length()) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    fail(ErrorKind::environment, "tcp",
         "cannot listen at the address {} of this host: {}. Name another interface with LOCKSTEP_SOCKET_IFNAME",
         address.host, std::strerror(errno));
  }
  address.port = own_port(socket.get());
  return socket;
}

UniqueFd begin_to_connect(const ListeningAddress& address) {
  const BoundAddress target(address);
  UniqueFd socket = target.socket();
  if (!socket || (::connect(socket.get(), target.get(), target.length()) != 0 && errno != EINPROGRESS)) {
    fail(ErrorKind::io, "tcp", "{}", std::strerror(errno));
  }
  return socket;
}

}  // namespace lockstep::detail::tcp
