#include <lockstep/doctor/numeric_address.h>

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

namespace lockstep::doctor {

std::optional<SocketAddress> numeric_address(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  SocketAddress found;
  std::memcpy(&found.storage, list->ai_addr, list->ai_addrlen);
  found.length = list->ai_addrlen;
  return found;
}

std::uint16_t port_of(const UniqueFd& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  // The port has the same offset in both address families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

}  // namespace lockstep::doctor
