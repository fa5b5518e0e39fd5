// How ranks connect to each other over Gloo, and notice meanwhile who will not come.
//
// The constructor of ProcessGroupGloo connects this rank with all others, one after the other. It waits for the address
// of each, and perhaps for its connection, until its timeout, whatever becomes of that rank. So a thread asks meanwhile
// whether somebody is lost. Then no address is waited for any more, and the connection that is waited for is closed.
#pragma once

#include <lockstep/comm/backend_context.h>
#include <lockstep/comm/gloo/closable_gloo.h>

namespace lockstep::detail::gloo {

/// The group of `context`, all connected. Error(peer_lost) with the reason when a rank will not come; Error(timeout).
c10::intrusive_ptr<ClosableGloo> meet(const BackendContext& context);

}  // namespace lockstep::detail::gloo
