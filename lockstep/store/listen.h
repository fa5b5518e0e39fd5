// Sockets that listen on addresses of this host.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::store {

struct Listening {
  std::vector<UniqueFd> sockets;  ///< non-blocking
  std::uint16_t port = 0;         ///< port of all these sockets
};

/// Listens on each of `addresses`, which are numeric and this host's own; if empty, on all addresses of this host.
/// `port` 0: the kernel chooses one. std::runtime_error with the kernel's message on failure.
Listening listen_at(const std::vector<std::string>& addresses, std::uint16_t port);

}  // namespace lockstep::store
