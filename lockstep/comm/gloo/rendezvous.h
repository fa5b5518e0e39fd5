// The connection of a group's ranks over Gloo, and the detection of ranks that are lost meanwhile.
//
// The constructor of ProcessGroupGloo connects this rank with all others, one after the other. It waits for the address
// of each, and perhaps for its connection, until its timeout, even if that rank has ended. So a thread checks meanwhile
// whether a rank is lost. If so, it ends the waits for addresses and closes the connection that is waited for.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/gloo/closable_gloo.h>

namespace lockstep::detail::gloo {

/// The connected group of `context`. Error(peer_lost) with the reason when a rank is lost; Error(timeout).
c10::intrusive_ptr<ClosableGloo> meet(const BackendContext& context);

}  // namespace lockstep::detail::gloo
