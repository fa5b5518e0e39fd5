// A server of c10d's store on a socket that already listens. c10d itself listens on all addresses of the host, and only
// newer versions accept a socket instead.
#pragma once

#include <lockstep/comm/meet/stores.h>

namespace lockstep::detail {

/// `listener` is a blocking socket; the store accepts from it until the process ends. For a process with no other task.
StorePtr serve_tcp_store(int listener);

}  // namespace lockstep::detail
