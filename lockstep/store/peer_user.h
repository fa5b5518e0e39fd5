// The user at the other end of a connection within this host, from the kernel's table of connections.
#pragma once

#include <sys/types.h>

#include <optional>

namespace lockstep::store {

/// nullopt where the other end is not on this host, or no process has it open any more.
std::optional<uid_t> find_peer_user(int socket);

/// Whether an unprotected store may serve this connection, or a client may use it: the other end belongs to another
/// host, to this user, or to root.
bool is_of_other_user(int socket);

}  // namespace lockstep::store
