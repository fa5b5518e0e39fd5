// The user at the other end of a connection within this host, from the kernel's table of connections.
#pragma once

#include <sys/types.h>

#include <optional>

namespace lockstep::store {

/// nullopt where the other end is not on this host, or no process has it open any more.
std::optional<uid_t> find_peer_user(int socket);

/// Whether a store that nothing else protects serves this connection, or a client of one uses it: the other end is
/// another host's, or this user's, or root's.
bool is_of_other_user(int socket);

}  // namespace lockstep::store
