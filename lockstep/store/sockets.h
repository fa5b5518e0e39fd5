// Sockets of a store: those that listen on addresses of this host; and the user at the other end of a connection within
// this host, from the kernel's table of connections.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <sys/types.h>

#include <cstdint>
#include <optional>
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

/// nullopt where the other end is not on this host, or no process has it open any more.
std::optional<uid_t> find_peer_user(int socket);

/// Whether an unprotected store may serve this connection, or a client may use it: the other end belongs to another
/// host, to this user, or to root.
bool is_of_other_user(int socket);

}  // namespace lockstep::store
