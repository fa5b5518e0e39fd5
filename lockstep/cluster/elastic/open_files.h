// How many files this process may have open.
#pragma once

namespace lockstep::cluster::elastic {

/// Raises the soft limit towards the hard one: whoever holds a store has a socket for each of its users, and the usual
/// 1024 are too few for many nodes. The ranks that are started later inherit it. Best effort.
void raise_open_file_limit() noexcept;

}  // namespace lockstep::cluster::elastic
