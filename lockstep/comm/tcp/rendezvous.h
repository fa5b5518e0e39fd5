// The connections between all pairs of a group's ranks, while other programs may connect to the same ports.
//
// During the rendezvous a rank listens on one port, and publishes its address and a random token through the store. It
// connects to the ranks below its own; the ranks above connect to it. In a job that encrypts, both sides verify the
// certificate of the other. Then the side that connected sends its rank, and proves with the token that it has read the
// store (handshake.h). Until then a connection has a limit of 10 s, and nothing beyond the handshake is read from it.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/tcp/link.h>

#include <vector>

namespace lockstep::detail::tcp {

/// The connections by rank; that of this rank has no socket. Error(environment) where one side refuses the certificate
/// of the other, Error(peer_lost) with the reason when a rank is lost, Error(timeout), Error(io).
std::vector<Connection> meet(const BackendContext& context);

}  // namespace lockstep::detail::tcp
