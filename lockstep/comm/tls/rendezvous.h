// Connecting the ranks of a group, each with each, while other programs may connect to the same ports.
//
// A rank listens at one port as long as this lasts, and tells its address and a random token through the store. It
// connects to the ranks below its own; those above connect to it. Both sides verify the certificate of the other, then
// the one that connected says who it is and proves with the token that it read the store (handshake.h). Until then a
// connection has 10 s, and no more is read from it than that.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/tls/link.h>

#include <vector>

namespace lockstep::detail::tls {

/// The connections by rank; that of this rank has no socket. Error(environment) where one side refuses the certificate
/// of the other, Error(peer_lost) with the reason when a rank will not come, Error(timeout), Error(io).
std::vector<Connection> meet(const BackendContext& context);

}  // namespace lockstep::detail::tls
