// The end of a launcher that runs a service: it stays while other launchers use it.
#pragma once

#include <functional>

namespace lockstep::cluster::elastic {

/// Returns when `users` is 0, or the user sends a signal; calls `tell` once if that takes long.
void stay_while_used(const std::function<int()>& users, const std::function<void()>& tell);

/// Raises the soft limit towards the hard one: the launcher that runs a service has a socket for each of its clients,
/// and the usual 1024 are too few for many nodes. Ranks that are started later inherit the limit. Best effort.
void raise_open_file_limit() noexcept;

}  // namespace lockstep::cluster::elastic
