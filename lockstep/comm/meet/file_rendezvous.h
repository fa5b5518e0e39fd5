// The rendezvous in a file that other jobs may have used before.
#pragma once

#include <lockstep/comm/meet/open_store.h>

namespace lockstep::detail {

/// The store in the file world.store_path, with keys under a prefix of this rendezvous alone: keys that a killed
/// earlier job left in the file are recognised and ignored. The last rank to leave removes the file.
///
/// Waits until all ranks of the world have arrived. Error(timeout) names those that did not; Error(io) when the file
/// cannot be made, is not a store, or another job begins its rendezvous there meanwhile.
OpenedStore meet_in_file(const World& world, std::chrono::milliseconds timeout);

}  // namespace lockstep::detail
