// A server of c10d's store on a socket that listens already. c10d itself listens on all addresses of the host, and only
// newer versions take a socket in the place of that.
#pragma once

#include <lockstep/comm/meet/stores.h>

namespace lockstep::detail {

/// `listener` blocks; the store accepts from it as long as the process lives. For a process that does nothing else.
StorePtr serve_tcp_store(int listener);

}  // namespace lockstep::detail
