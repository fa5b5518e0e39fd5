// The limit of open files of this process.
#pragma once

namespace lockstep::cluster::elastic {

/// Raises the soft limit towards the hard one: the agent that hosts a store has a socket for each of its clients, and
/// the usual 1024 are too few for many nodes. Ranks that are started later inherit the limit. Best effort.
void raise_open_file_limit() noexcept;

}  // namespace lockstep::cluster::elastic
