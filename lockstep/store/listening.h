// The sockets on which a store listens.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::store {

struct Listening {
  std::vector<UniqueFd> sockets;  ///< do not block
  std::uint16_t port = 0;         ///< of all of them
};

/// Listens on each of `addresses`, which are in digits and this host's own; where there are none, on all of this host.
/// `port` 0: one that the kernel chooses. std::runtime_error with the kernel's words.
Listening listen_at(const std::vector<std::string>& addresses, std::uint16_t port);

}  // namespace lockstep::store
