// The rendezvous in a file that other jobs may have used before.
#pragma once

#include <lockstep/comm/meet/open_store.h>

namespace lockstep::detail {

/// The store in the file world.store_path, with keys under a prefix that only this rendezvous uses. Keys that a killed
/// earlier job left in the file are recognised and ignored. The last rank to leave removes the file.
///
/// Waits until all ranks of the world have arrived. Error(timeout) names the missing ranks; Error(io) when the file
/// cannot be created, is not a store, or another job starts its rendezvous there meanwhile.
OpenedStore meet_in_file(const World& world, std::chrono::milliseconds timeout);

}  // namespace lockstep::detail
