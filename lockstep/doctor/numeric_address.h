// Conversion of a numeric address and port to the kernel's sockaddr.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::doctor {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// nullopt when `address` is not numeric, such as "10.0.0.1" or "::1".
std::optional<SocketAddress> numeric_address(const std::string& address, std::uint16_t port);

/// The port that a socket is bound to.
std::uint16_t port_of(const UniqueFd& socket);

}  // namespace lockstep::doctor
